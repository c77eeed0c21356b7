"""The kernel of products with single weights, over x that lies transposed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import moved_as
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.byte_products import BYTE_PRODUCTS
from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.memory.turned_bytes import TURN_BYTES
from autoq.templates.cuda.pruned.elements.config import ElementsTiling
from autoq.templates.cuda.pruned.elements.pack import pack_runs, run_specs
from autoq.templates.cuda.pruned.elements.source import SOURCE
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_FIELDS = {"x_scale": "row_scale"}
"""Inputs that an epilogue knows by another name."""


def sums_dtype(tiling: ElementsTiling) -> str:
    """The dtype of sums on their way to the epilogue."""
    return "float32" if tiling.view.floating else "int32"


def _epilogue(tiling: ElementsTiling) -> ThreadEpilogue:
    """The epilogue of a few columns of a row of y."""
    return tiling.view.thread_epilogue(tiling.view.n, math.gcd(tiling.view.n, 4, tiling.groups))


def _namespace(tiling: ElementsTiling, adds: bool) -> DeviceNamespace:
    view, config, epilogue = tiling.view, tiling.config, _epilogue(tiling)
    row_scale = "\n    own.row = __ldg(from.row_scale + row)" if view.epilogue.row_scale else ""
    step = view.workload.weight_dtype if view.value.bytes == 1 else "float32"
    source = TURN_BYTES + BYTE_PRODUCTS + SOURCE.replace("ROW_SCALE;", row_scale + ";")
    return epilogue.namespace(
        "elements",
        source + _entry(tiling, adds),
        {"X": view.value.name, "WEIGHT": view.workload.weight_dtype, "STEP": step,
         "SUM": sums_dtype(tiling)},
        {
            "M": view.m, "N": view.n, "K": view.k, "PITCH": tiling.pitch,
            "SIZE": view.value.bytes, "BRAIN": view.value.name == "bfloat16",
            "LANES": config.lanes, "OUTPUTS": config.outputs, "THREADS": tiling.threads,
            "CHUNK": config.chunk, "CHUNKS": tiling.chunks, "ROW_TILES": tiling.row_tiles,
            "COLUMN_TILES": tiling.column_tiles, "ADDS": adds,
        },
    )  # fmt: skip


def _entry(tiling: ElementsTiling, adds: bool) -> str:
    """C++ of `multiply`, whose parameters are the pointers that there are."""
    terms = _epilogue(tiling).constant_parameters()
    others = {_FIELDS.get(spec.name, spec.name): spec for spec in tiling.view.workload.inputs[1:]}
    given = {**others, **{spec.name: spec for spec in terms}}
    types = {name: element(moved_as(spec.dtype)).c_type for name, spec in given.items()}
    inputs = "".join(f"const void* {name}, " for name in others)
    constants = "".join(f"const void* {spec.name}, " for spec in terms)
    before = ("const void* before, ", "(const SUM*)before") if adds else ("", "nullptr")
    fields = " ".join(f"from.{name} = (const {kind}*){name};" for name, kind in types.items())
    fields = fields.replace("(const unsigned short*)residual", "(const ADDEND*)residual")
    return (
        f"__device__ __forceinline__ void multiply(unsigned char* smem, const void* x, {before[0]}"
        f"{inputs}const int* starts, const void* places, const void* values, {constants}"
        "void* y, int block, int thread) {\n"
        f"  Constants from = {{}};\n  {fields}\n"
        f"  multiply_elements(smem, (const unsigned char*)x, {before[1]}, starts, "
        "(const int4*)places, (const STEP*)values, from, (OUT*)y, block, thread);\n}\n"
    )


def turned_spec(tiling: ElementsTiling, name: str) -> TensorSpec:
    """x transposed, as the kernel reads it."""
    return TensorSpec(name, (tiling.view.k, tiling.pitch), tiling.view.value.name)


def elements_kernel(tiling: ElementsTiling, before: TensorSpec | None, target: Target) -> PrimFunc:
    """The product; parameters x transposed, sums, the other inputs, `packed_elements`, y.

    before: sums [m, n] of other weights, int32 or float32, that those of these weights are added
    to; None for none.
    """
    workload = tiling.view.workload
    functions = _namespace(tiling, before is not None)
    given = () if before is None else (before,)
    parameters = [
        turned_spec(tiling, "turned"), *given, *workload.inputs[1:], *packed_elements(tiling),
        *workload.outputs,
    ]  # fmt: skip

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((tiling.smem_bytes,), "uint8", scope="shared.dyn", align=128)
        call(functions.function("multiply"), smem.data, *pointers, block, thread)

    blocks = tiling.row_tiles * tiling.column_tiles
    return thread_kernel(parameters, blocks, tiling.threads, target, body)


def packed_elements(tiling: ElementsTiling) -> tuple[TensorSpec, ...]:
    """The arrays of `pack_elements`."""
    return (*run_specs(tiling), *_epilogue(tiling).constant_parameters())


def pack_elements(tiling: ElementsTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """Runs of weights, and what the epilogue reads."""
    view, epilogue = tiling.view, _epilogue(tiling)
    weight = view.weight(constants)
    terms = {**view.terms(constants), "x_zero_point": 0}
    none = np.zeros(epilogue.workload.weight_shape, np.int8)
    return (*pack_runs(tiling, weight), *epilogue.pack(none, terms))
