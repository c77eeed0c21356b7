"""The tile-wise product on wgmma over x as it lies: one launch, a persistent kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.memory.ring_source import RING
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.cuda.pruned.picked.config import PickedTiling
from autoq.templates.cuda.pruned.picked.load_source import LOAD, PIXELS_BOX, ROWS_BOX
from autoq.templates.cuda.pruned.picked.multiply_source import MULTIPLY, PICK, WHOLE
from autoq.templates.cuda.pruned.picked.pack import pack_schedule, schedule_specs
from autoq.templates.cuda.pruned.tile_wise.help_source import ALONE, OUTPUTS
from autoq.templates.cuda.pruned.tile_wise.kernel import BITS_OF, terms_in_order
from autoq.templates.cuda.pruned.tile_wise.words_source import SHIFTS, WORDS
from autoq.templates.element import element
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue
from autoq.templates.storage import moved_as
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants


def epilogue_of(tiling: PickedTiling) -> ThreadEpilogue:
    """The epilogue of a thread's two columns of two rows of y."""
    return tiling.view.thread_epilogue(tiling.terms, 4)


def _namespace(tiling: PickedTiling, target: Target) -> DeviceNamespace:
    """The function multiply(smem, x map, `packed_all`, y, block, thread)."""
    view, config, epilogue = tiling.view, tiling.config, epilogue_of(tiling)
    workload = view.workload
    sums = "float32" if view.floating else "int32"
    atom = Wgmma(
        (64, tiling.width, 32 // tiling.size), workload.in_dtype, workload.weight_dtype, sums,
        a_from_registers=config.picked,
    )  # fmt: skip
    assembly = atom.assembly("product", 0).replace("unsigned* d", "int* d")
    finish = WORDS.replace("SHIFTS;", (SHIFTS if view.epilogue.float_bias else "") + ";")
    images = tiling.operand.images
    begin, box = ROWS_BOX if images is None else PIXELS_BOX
    load = LOAD.replace("BEGIN_BOXES", begin).replace("LOAD_BOX", box)
    multiply = MULTIPLY.replace("MULTIPLY_TILE", PICK if config.picked else WHOLE)
    source = BITS_OF + assembly + RING + OUTPUTS + load + finish + ALONE + multiply
    for mark in (" ", "*"):
        source = source.replace("SUM" + mark, ("float" if view.floating else "int") + mark)
    return epilogue.namespace(
        "picked",
        source + _entry(tiling),
        {},
        {
            **_image_sizes(tiling), "ROW_BYTES": tiling.operand.row_bytes,
            "M": view.m, "N": view.n, "SIZE": tiling.size, "ALL": tiling.sums, "PAIRED": False,
            "WIDTH": tiling.width, "ROWS": config.rows, "SIDES": config.sides,
            "SPLITS": config.splits, "CONSUMERS": tiling.consumers, "BLOCKS_M": tiling.blocks_m,
            "DEPTH": config.depth, "X_STAGES": config.x_stages, "STAGES": config.stages,
            "W_STAGE_BYTES": tiling.weight_stage_bytes, "PICKS_AT": tiling.picks_at,
            "K_STAGES": tiling.k_stages, "OUTPUT_BYTES": tiling.staged_bytes,
            "CHANNELS": tiling.terms, "TERMS": tiling.terms_of_tile,
            "FLOAT_BIAS": view.epilogue.float_bias, "ROW_GROUPS": tiling.row_groups,
            "ITEMS": tiling.items, "CLUSTER": config.cluster,
            "CLUSTERS": _clusters(tiling, target), "PRODUCER_REGISTERS": tiling.budget.producer,
            "CONSUMER_REGISTERS": tiling.budget.consumer,
        },
    )  # fmt: skip


def _image_sizes(tiling: PickedTiling) -> dict[str, int]:
    """Numbers of `PIXELS_BOX`."""
    conv = tiling.operand.images
    if conv is None:
        return {}
    return {
        "IMAGE_P": conv.p, "IMAGE_Q": conv.q, "STRIDE_H": conv.stride[0],
        "STRIDE_W": conv.stride[1], "TOP": conv.padding[0], "LEFT": conv.padding[1],
        "FILTER_S": conv.s, "DILATION_H": conv.dilation[0], "DILATION_W": conv.dilation[1],
        "STAGES_OF_TAP": tiling.operand.stages_of_tap,
    }  # fmt: skip


def _clusters(tiling: PickedTiling, target: Target) -> int:
    return min(tiling.items, target.units // tiling.config.cluster)


def _entry(tiling: PickedTiling) -> str:
    """C++ of `multiply`, whose parameters are the pointers that there are."""
    terms = epilogue_of(tiling).constant_parameters()
    parameters = "".join(f"const void* {spec.name}, " for spec in terms)
    fields = " ".join(
        f"from.{spec.name} = (const {element(moved_as(spec.dtype)).c_type}*){spec.name};"
        for spec in terms
    )
    return (
        "__device__ __forceinline__ void multiply(unsigned char* smem, unsigned long long x_map, "
        f"const void* values, const int* tiles, const void* entries, {parameters}void* y, "
        f"int block, int thread) {{\n  Constants from = {{}};\n  {fields}\n"
        "  multiply_picked(smem, x_map, (const unsigned char*)values, (const int4*)tiles, entries, "
        "from, (OUT*)y, block, thread);\n}\n"
    )


def build_kernel(tiling: PickedTiling, target: Target) -> PrimFunc:
    """The kernel; parameters x, those of `packed_all`, y."""
    config, functions = tiling.config, _namespace(tiling, target)
    workload = tiling.operand.images or tiling.view.workload
    x = tiling.operand.mapped(config.rows)
    parameters = [x, *packed_all(tiling), *workload.outputs]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((tiling.smem_bytes,), "uint8", scope="shared.dyn", align=1024)
        call(functions.function("multiply"), smem.data, *pointers, block, thread)

    return thread_kernel(
        parameters, _clusters(tiling, target) * config.cluster, tiling.threads, target, body,
        cluster=config.cluster,
    )  # fmt: skip


def packed_all(tiling: PickedTiling) -> tuple[TensorSpec, ...]:
    """The arrays of `pack_all`."""
    return (*schedule_specs(tiling), *epilogue_of(tiling).constant_parameters())


def pack_all(tiling: PickedTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The schedule, and what the epilogue reads."""
    constants = tiling.operand.constants(constants)
    schedule = pack_schedule(tiling, constants)
    specs = epilogue_of(tiling).constant_parameters()
    return (*schedule.arrays, *terms_in_order(tiling.view, specs, schedule.columns, constants))
