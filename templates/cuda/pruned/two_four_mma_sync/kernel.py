"""The 2:4 sparse product on mma.sp: a block for each tile of y."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.copy_source import COPIES
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.pruned.two_four.pack import pack_terms
from autoq.templates.cuda.pruned.two_four_mma_sync.config import TwoFourMmaTiling
from autoq.templates.cuda.pruned.two_four_mma_sync.pack import pack_weight, weight_spec
from autoq.templates.cuda.pruned.two_four_mma_sync.source import FINISH, PRODUCT, ROW_SCALE, SOURCE
from autoq.templates.epilogue.cuda.thread.form_choice import form_choice
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_BITS_OF = r"""
__device__ __forceinline__ int bits_of(int v) { return v; }
__device__ __forceinline__ int bits_of(float v) { return __float_as_int(v); }
"""
_FIELDS = {"x_scale": "row_scale"}
"""Inputs that an epilogue knows by another name."""


def epilogue_of(tiling: TwoFourMmaTiling) -> ThreadEpilogue:
    """The epilogue of four columns of a row of y."""
    return tiling.view.thread_epilogue(tiling.terms)


def _source(tiling: TwoFourMmaTiling) -> str:
    view = tiling.view
    product = PRODUCT.replace("INSTRUCTION", tiling.atom.instruction)
    product = product.replace("KIND", "f" if view.floating else "r")
    choice = form_choice(view.epilogue, view.shortened, "own[0].form", FINISH)
    source = SOURCE.replace("COPIES", COPIES).replace("PRODUCT", product)
    source = source.replace("CHOICE", choice)
    row_scale = ROW_SCALE if view.epilogue.row_scale else ""
    return _BITS_OF + source.replace("ROW_SCALE\n", row_scale + "\n") + _entry(tiling)


def _namespace(tiling: TwoFourMmaTiling) -> DeviceNamespace:
    """The function multiply(smem, x, further inputs, weight, terms, y, block, thread)."""
    view, config = tiling.view, tiling.config
    work, out_bytes = view.workload, view.out_bytes
    return epilogue_of(tiling).namespace(
        "two_four_mma",
        _source(tiling),
        {"SUM": "float32" if view.floating else "int32"},
        {
            "M": work.m, "N": work.n, "X_PITCH": work.k * tiling.size,
            "WEIGHT_WARPS": config.weight_warps, "ROW_WARPS": config.row_warps,
            "WARP_ROWS": config.warp_rows, "STAGES": config.stages, "GROUP": config.group,
            "ROW_TILES": tiling.row_tiles, "WEIGHT_TILES": tiling.weight_tiles,
            "K_STAGES": tiling.k_stages, "BLOCK_BYTES": tiling.block_bytes,
            "METADATA_WORDS": tiling.metadata_words,
            "VECTOR_BYTES": math.gcd(16, 8 * out_bytes, work.n * out_bytes),
        },
    )  # fmt: skip


def _entry(tiling: TwoFourMmaTiling) -> str:
    """C++ of `multiply`, whose parameters are the pointers that there are."""
    epilogue, others = epilogue_of(tiling), tiling.view.workload.inputs[1:]
    names = [_FIELDS.get(spec.name, spec.name) for spec in others]
    inputs = "".join(f"const void* {name}, " for name in names)
    terms = [spec.name for spec in epilogue.constant_parameters()]
    constants = "".join(f"const void* {name}, " for name in terms)
    types = {"residual": "ADDEND", "bias": "ACC"}
    fields = " ".join(
        f"from.{name} = (const {types.get(name, 'float')}*){name};" for name in [*names, *terms]
    )
    return (
        "__device__ __forceinline__ void multiply(unsigned char* smem, const void* x, "
        f"{inputs}const void* weight, {constants}void* y, int block, int thread) {{\n"
        f"  Constants from = {{}};\n  {fields}\n"
        "  multiply_two_four(smem, (const unsigned char*)x, (const unsigned char*)weight, "
        "from, (OUT*)y, block, thread);\n}\n"
    )


def build_kernel(tiling: TwoFourMmaTiling, target: Target) -> PrimFunc:
    """The kernel; parameters x, further inputs, those of `packed_all`, y."""
    function, work = _namespace(tiling).function("multiply"), tiling.view.workload
    parameters = [*work.inputs, *packed_all(tiling), *work.outputs]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((tiling.smem_bytes,), "uint8", scope="shared.dyn", align=1024)
        call(function, smem.data, *pointers, block, thread)

    config = tiling.config
    return thread_kernel(
        parameters, tiling.blocks, config.threads, target, body, together=config.blocks_per_sm
    )


def packed_all(tiling: TwoFourMmaTiling) -> tuple[TensorSpec, ...]:
    """The arrays of `pack_all`."""
    return (weight_spec(tiling), *epilogue_of(tiling).constant_parameters())


def pack_all(tiling: TwoFourMmaTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The weight, and what the epilogue reads of whole tiles."""
    view, specs = tiling.view, epilogue_of(tiling).constant_parameters()
    terms = view.terms(constants)
    form = view.short_form(terms)
    own = pack_terms(view.epilogue, specs, terms, form, tiling.terms)
    return (pack_weight(tiling, constants), *own)
