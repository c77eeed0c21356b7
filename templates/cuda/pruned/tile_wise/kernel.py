"""The tile-wise product on wgmma: one launch for all tiles over x that lies transposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import moved_as
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.composed.pruned_product import PrunedProduct
from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.matrix_source import READ_MATRICES
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.memory.ring_source import RING
from autoq.templates.cuda.device.memory.turn import TURN_TILE, TURN_UNITS, turn_sizes
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.cuda.device.scattered.words_source import COLUMNS_WORDS, SHIFTS, WORDS
from autoq.templates.cuda.pruned.tile_wise.config import TileWiseTiling
from autoq.templates.cuda.pruned.tile_wise.gather_source import GATHER
from autoq.templates.cuda.pruned.tile_wise.help_source import (
    ALONE,
    HELP,
    OUTPUTS,
    ROWS_OF,
    SHARED,
    STORE,
    THERE,
    TURNED,
)
from autoq.templates.cuda.pruned.tile_wise.item_source import ITEM
from autoq.templates.cuda.pruned.tile_wise.multiply_source import MULTIPLY
from autoq.templates.cuda.pruned.tile_wise.outputs import TileOutputs
from autoq.templates.cuda.pruned.tile_wise.pack import pack_schedule, schedule_specs
from autoq.templates.cuda.pruned.tile_wise.sums_source import COLUMNS_SUMS, SUMS
from autoq.templates.cuda.pruned.tile_wise.tiling import HELPING, WARPGROUP
from autoq.templates.epilogue.cuda.parameters.scalars import packed_scalars, packed_scales
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_FIELDS = {"x_scale": "row_scale"}
"""Inputs that an epilogue knows by another name."""

BITS_OF = r"""
__device__ __forceinline__ int bits_of(int v) { return v; }
__device__ __forceinline__ int bits_of(float v) { return __float_as_int(v); }
// What reads a sum stays behind this.
__device__ __forceinline__ void hold(int& v) { asm volatile("" : "+r"(v) : : "memory"); }
__device__ __forceinline__ void hold(float& v) { asm volatile("" : "+f"(v) : : "memory"); }
"""


def _namespace(tiling: TileWiseTiling, target: Target) -> DeviceNamespace:
    """The function multiply(smem, x, further inputs, `packed_all`, y, block, thread)."""
    view, config, epilogue = tiling.view, tiling.config, tiling.epilogue
    workload = view.workload
    sums = "float32" if view.floating else "int32"
    atom = Wgmma(
        (64, tiling.width, 32 // tiling.size), workload.in_dtype, workload.weight_dtype, sums,
        a_from_registers=True,
    )  # fmt: skip
    assembly = atom.assembly("product", 0).replace("unsigned* d", "int* d")
    finish = finish_source(tiling)
    turned = TURNED if config.fused else THERE
    own = TURN_UNITS + STORE + HELP if config.helped else ALONE
    source = (
        BITS_OF
        + assembly
        + RING
        + READ_MATRICES
        + SHARED
        + ROWS_OF
        + OUTPUTS
        + turned
        + ITEM
        + GATHER
        + finish
        + own
        + MULTIPLY
    )
    source = source.replace("SUM ", "float " if view.floating else "int ")
    source = source.replace("SUM*", "float*" if view.floating else "int*")
    return epilogue.namespace(
        "tile_wise",
        source + _entry(tiling),
        {},
        {
            **turn_sizes(workload.inputs[0], turned_spec(tiling), WARPGROUP), "N": view.n,
            "ALL": tiling.sums, "HELPED": config.helped,
            "PAIRED": tiling.paired, "FUSED": config.fused, "SWIZZLED": config.swizzled,
            "HELPER_REGISTERS": HELPING, "OUTPUT_BYTES": tiling.staged_bytes,
            "WIDTH": tiling.width, "ROWS": config.rows, "CONSUMERS": config.consumers,
            "BLOCKS_M": tiling.blocks_m, "DEPTH": config.depth, "STAGE_ROWS": tiling.stage_rows,
            "STAGES": config.stages, "BULK": config.bulk, "X_ROW_BYTES": tiling.x_row_bytes,
            "X_STAGE_BYTES": tiling.x_stage_bytes, "CHANNELS": tiling.terms,
            "TERMS": tiling.terms_of_tile, "FLOAT_BIAS": view.epilogue.float_bias,
            "ROW_GROUPS": tiling.row_groups, "ITEMS": tiling.items, "CLUSTER": config.cluster,
            "AHEAD": config.ahead,
            "CLUSTERS": _clusters(tiling, target), "PRODUCER_REGISTERS": tiling.budget.producer,
            "CONSUMER_REGISTERS": tiling.budget.consumer,
        },
    )  # fmt: skip


def finish_source(tiling: TileOutputs, held: bool = False) -> str:
    """CUDA of the way from sums to rows of y; held: whether entries may be in shared memory."""
    epilogue = tiling.product.epilogue
    row_scale = "\n      own.row = __ldg(from.row_scale + row)" if epilogue.row_scale else ""
    shifts = SHIFTS if epilogue.float_bias else ""
    words, sums = (COLUMNS_WORDS, COLUMNS_SUMS) if tiling.by_columns else (WORDS, SUMS)
    finish = words.replace("SHIFTS;", shifts + ";") if tiling.in_words else sums
    at_once, row = ("8", "(r + i * step) % 16") if held else ("4", "(r + i * step)")
    finish = finish.replace("AT_ONCE", at_once).replace("READ_ROW", row)
    finish = finish.replace("ENTRY_AT", "*" if held else "__ldg")
    return finish.replace("ROW_SCALE;", row_scale + ";")


def given_terms(tiling: TileOutputs) -> tuple[str, str, str]:
    """C++ parameters of further inputs and of constants, and statements that fill `from`."""
    epilogue = tiling.epilogue
    others = {
        _FIELDS.get(spec.name, spec.name): spec for spec in tiling.product.workload.inputs[1:]
    }
    given = {**others, **{spec.name: spec for spec in epilogue.constant_parameters()}}
    types = {name: element(moved_as(spec.dtype)).c_type for name, spec in given.items()}
    inputs = "".join(f"const void* {name}, " for name in others)
    terms = "".join(f"const void* {spec.name}, " for spec in epilogue.constant_parameters())
    fields = " ".join(f"from.{name} = (const {kind}*){name};" for name, kind in types.items())
    return (
        inputs,
        terms,
        fields.replace("(const unsigned short*)residual", "(const ADDEND*)residual"),
    )


def _clusters(tiling: TileWiseTiling, target: Target) -> int:
    return min(tiling.items, target.units * tiling.config.blocks // tiling.config.cluster)


def _entry(tiling: TileWiseTiling) -> str:
    """C++ of `multiply`, whose parameters are the pointers that there are."""
    inputs, terms, fields = given_terms(tiling)
    fused = tiling.config.fused
    first = "const void* given" if fused else "void* x"
    last = "int* progress, void* x, " if fused else ""
    return (
        f"__device__ __forceinline__ void multiply(unsigned char* smem, {first}, {inputs}"
        f"const void* values, const int* rows, const int* tiles, const void* places, {terms}"
        f"{last}void* y, int block, int thread) {{\n"
        f"  Constants from = {{}};\n  {fields}\n"
        f"  multiply_tile_wise(smem, (const unsigned char*){'given' if fused else 'nullptr'}, "
        "(unsigned char*)x, rows, (const unsigned char*)values, (const int4*)tiles, places, from, "
        f"{'progress' if fused else 'nullptr'}, (OUT*)y, block, thread);\n}}\n"
    )


def turned_spec(tiling: TileWiseTiling) -> TensorSpec:
    """x transposed."""
    x = tiling.view.workload.inputs[0]
    return TensorSpec("turned_x", (tiling.view.k, tiling.pitch), x.dtype)


def progress_spec(tiling: TileWiseTiling) -> TensorSpec:
    """What helpers count: blocks handed out, blocks of the grid that ended, and turned ones."""
    chunks = -(-tiling.view.k * tiling.size // TURN_TILE)
    return TensorSpec("progress", (2 + chunks,), "int32")


def product_kernel(tiling: TileWiseTiling, target: Target) -> PrimFunc:
    """The product; parameters x transposed, the other inputs, `packed_all`, y.

    Fused they are x, the other inputs, `packed_all`, progress, x transposed, y.
    """
    workload = tiling.view.workload
    functions = _namespace(tiling, target)
    given, *others = workload.inputs
    first, *before = (turned_spec(tiling),)
    if tiling.config.fused:
        first, before = given, [progress_spec(tiling), turned_spec(tiling)]
    parameters = [first, *others, *packed_all(tiling), *before, *workload.outputs]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((tiling.smem_bytes,), "uint8", scope="shared.dyn", align=128)
        call(functions.function("multiply"), smem.data, *pointers, block, thread)

    return thread_kernel(
        parameters, _clusters(tiling, target) * tiling.config.cluster, tiling.threads, target, body,
        cluster=tiling.config.cluster, together=tiling.config.blocks,
    )  # fmt: skip


def packed_all(tiling: TileWiseTiling) -> tuple[TensorSpec, ...]:
    """The arrays of `pack_all`."""
    return (*schedule_specs(tiling), *tiling.epilogue.constant_parameters())


def pack_all(tiling: TileWiseTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The schedule, and what the epilogue reads."""
    schedule = pack_schedule(tiling, constants)
    specs = tiling.epilogue.constant_parameters()
    return (*schedule.arrays, *terms_in_order(tiling.view, specs, schedule.columns, constants))


def terms_in_order(
    view: PrunedProduct, specs: Sequence[TensorSpec], columns: np.ndarray, constants: Constants
) -> tuple[np.ndarray, ...]:
    """What the epilogue's constant parameters hold of so many columns of y, n for none."""
    terms = view.terms(constants)

    def in_order(values: np.ndarray) -> np.ndarray:
        return np.where(
            columns < view.n, values[np.minimum(columns, view.n - 1)], values.dtype.type(0)
        )

    given = {
        "bias": in_order(np.asarray(terms["bias"], np.int32)).reshape(1, 1, -1),
        "scalars": packed_scalars(view.epilogue, terms),
    }
    if any(spec.name == "scale" for spec in specs):
        given["scale"] = packed_scales(view.epilogue, terms, in_order)
    return tuple(np.ascontiguousarray(given[spec.name], spec.dtype) for spec in specs)
