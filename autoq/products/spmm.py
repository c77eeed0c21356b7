"""`autoq.spmm`: products of sparse matrices, such as quantised weights, with dense ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.devices import Host
from autoq.errors import InputError
from autoq.products.numbers_by_row import numbers_by_row
from autoq.products.option_fields import options_of
from autoq.products.placed_options import PlacedOptions
from autoq.runtime.dlpack import ARRAYS, tensor_of
from autoq.single_operator import CompiledOperator
from autoq.templates.arrays.element import INTEGER_RANGE, element
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.field_types import require_vector
from autoq.templates.operators.spmm import SHORT_VECTORS, VECTORS, Spmm
from autoq.templates.operators.spmm_dtypes import FLOATS
from autoq.templates.sparse.conversion import to_vectors
from autoq.templates.sparse.structure import Structure
from autoq.templates.sparse.suited import suited_vector
from autoq.templates.sparse.vector_matrix import VectorMatrix

_GATHER_COST = 10
"""The cost of a row of b that a CPU gathers, where each row of a vector costs 1."""

_GPU_VECTOR = 8
"""A product of tensor cores takes eight rows, also of shorter vectors."""


@dataclass(frozen=True)
class SpmmOptions(PlacedOptions):
    """What follows the product, and where it is computed.

    scale: float32, a number or one for each row; what is not int32 needs it, unless factors are
    floats. bias: int32, or float32 of floats, a number or one for each row, added to the sums
    before they are scaled. out_dtype: of y, None for int32, or for the factors' type of floats;
    low, high: y is clamped to them, before the zero point is added. b_zero_point, out_zero_point:
    of b and of y.
    vector: rows of a vector, one of `VECTORS`; None for what suits the matrix and the device.
    target, tuning_records, use_shipped_records and cache_dir as in `autoq.operator`.
    """

    scale: Any = None
    bias: Any = None
    out_dtype: str | None = None
    low: float | None = None
    high: float | None = None
    b_zero_point: int = 0
    out_zero_point: int = 0
    vector: int | None = None


def spmm(a: Any, b: Any, **options: Any) -> Any:
    """The product `a @ b` of a sparse matrix [m, k] and a dense one [k, n], of integers or floats.

    a: a matrix of scipy.sparse, a torch CSR or BSR tensor, numpy, or a format of
    `autoq.templates.sparse`. b: integers of 8 or 16 bits, or float16 or bfloat16, as which a then
    is, numpy or DLPack. `options` are the fields of `SpmmOptions`. y is as of `autoq.operator`.
    Each call compiles, or finds the kernel in the cache, and packs a: for many products with one
    matrix keep what `spmm_operator` gives.

    Raises InputError for what the user gave, and else what `autoq.operator` raises.
    """
    array = b if isinstance(b, ARRAYS) else tensor_of("b", b)
    if len(array.shape) != 2:
        raise InputError(f"b of shape {list(array.shape)!s:.60}: two axes are expected")
    return spmm_operator(a, int(array.shape[1]), str(array.dtype), **options)(array)


def spmm_operator(a: Any, n: int, in_dtype: str = "int8", **options: Any) -> CompiledOperator:
    """The product of a sparse matrix with dense ones [k, n] of in_dtype, as a function of them.

    in_dtype may also be int4 or uint4, two values a byte. The `workload` of what is given is what
    `autoq.tune` takes; records serve all matrices of its class. Arguments and errors are those of
    `spmm`.
    """
    chosen = options_of(SpmmOptions, options)
    place = chosen.place
    matrix = _in_vectors(a, chosen.vector, place.host)
    matrix = _of_floats(matrix, in_dtype) if in_dtype in FLOATS else _of_fewest_bits(matrix)
    structure = Structure.of(matrix.lengths, matrix.pointers, matrix.indices)
    workload = Spmm(
        matrix.rows, n, matrix.columns, matrix.vector, structure, in_dtype,
        str(matrix.values.dtype), Epilogue(chosen.out_dtype or _out_dtype(in_dtype)),
    )  # fmt: skip
    return place.compiled(workload, _constants(workload, matrix, chosen))


def _in_vectors(a: Any, vector: int | None, host: Host) -> VectorMatrix:
    """The matrix in vectors of so many rows, or of as many as cost least."""
    if vector is not None:
        if isinstance(vector, int):  # of what is none, `to_vectors` tells
            require_vector(vector, VECTORS)
        return to_vectors(a, vector)
    eights = to_vectors(a, _GPU_VECTOR)
    if host.target.kind == "cuda":
        rows, columns, _ = eights.entries()
        lengths = [one for one in VECTORS if one >= _GPU_VECTOR]
        return to_vectors(eights, suited_vector(rows, columns, eights.columns, lengths))
    found = [eights, *(to_vectors(eights, one) for one in SHORT_VECTORS if one != _GPU_VECTOR)]
    return min(found, key=lambda one: len(one.indices) * (_GATHER_COST + one.vector))


def _out_dtype(in_dtype: str) -> str:
    """The dtype of y where none is asked for."""
    return in_dtype if in_dtype in FLOATS else "int32"


def _of_floats(matrix: VectorMatrix, dtype: str) -> VectorMatrix:
    """The matrix, whose values are of a type of floats."""
    if str(matrix.values.dtype) != dtype:
        raise InputError(
            f"the sparse matrix holds {matrix.values.dtype} and b {dtype}: convert one of them"
        )
    return matrix


def _of_fewest_bits(matrix: VectorMatrix) -> VectorMatrix:
    """The matrix with values of int8, uint8, int16 or uint16, the first that holds them."""
    values = matrix.values
    if values.dtype.kind not in "iub":
        raise InputError(f"the sparse matrix holds {values.dtype}; quantise it to int8 first")
    least, most = int(values.min(initial=0)), int(values.max(initial=0))
    bytes_first = ("uint8", "int8") if values.dtype == np.uint8 else ("int8", "uint8")
    for kind in (*bytes_first, "int16", "uint16"):
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        if low <= least and most <= high:
            arrays = matrix.pointers, matrix.indices, values.astype(kind)
            return VectorMatrix(matrix.rows, matrix.columns, matrix.vector, *arrays)
    raise InputError(f"the sparse matrix holds {least} to {most}; 8 or 16 bits are expected")


def _constants(workload: Spmm, matrix: VectorMatrix, options: SpmmOptions) -> dict[str, Any]:
    """The constants of the workload."""
    integer = workload.epilogue.out_dtype in INTEGER_RANGE
    zero_point = options.out_zero_point if integer else 0
    least, most = INTEGER_RANGE.get(workload.epilogue.out_dtype, (-np.inf, np.inf))
    if integer and not least <= zero_point <= most:
        raise InputError(f"out_zero_point {zero_point}: {least} to {most} is expected")
    low, high = element(workload.in_dtype).range or (0, 0)
    if not low <= options.b_zero_point <= high:
        raise InputError(f"b_zero_point {options.b_zero_point}: {low} to {high} is expected")
    bias_dtype, scale = ("float32", 1.0) if workload.floating else ("int32", None)
    bias = 0 if options.bias is None else options.bias
    scale = scale if options.scale is None else options.scale
    low = -np.inf if options.low is None else options.low
    high = np.inf if options.high is None else options.high
    if not low <= high:
        raise InputError(f"low {low:g} and high {high:g}: y is clamped to nothing between them")
    constants = {
        "values": matrix.values,
        "columns": matrix.indices,
        "pointers": matrix.pointers,
        "bias": numbers_by_row("bias", bias, workload.m, bias_dtype),
        "scalars": pack_scalars(
            low=max(low, least - zero_point), high=min(high, most - zero_point),
            zero_point=zero_point,
        ),
    }  # fmt: skip
    if not workload.floating:
        constants["b_zero_point"] = int(options.b_zero_point)
    if workload.epilogue.out_dtype != "int32":
        if scale is None:
            raise InputError(f"out_dtype {workload.epilogue.out_dtype!r}: give a scale")
        constants["scale"] = numbers_by_row("scale", scale, workload.m, "float32")
    elif options.scale is not None or (options.low, options.high) != (None, None):
        raise InputError("out_dtype 'int32': sums have neither a scale nor bounds")
    return constants
