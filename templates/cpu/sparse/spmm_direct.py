"""Sparse products on any CPU: rows of the dense side widened, one after the other."""

from __future__ import annotations

from autoq.templates.cpu.sparse.template import sparse_template
from autoq.templates.operators.spmm import Spmm
from autoq.templates.target import Target

_LANES = 16
_BYTES = ("int8", "uint8")
_MOST_ELEMENTS = 1 << 31


def matches(workload: object, target: Target) -> bool:
    """Sparse products of bytes, with values of 4 bits too, and of floats; int32 indices suffice.

    Conversions of float16 came with AVX2.
    """
    if not isinstance(workload, Spmm) or target.kind != "cpu":
        return False
    if workload.floating:
        epilogue = workload.epilogue
        dtypes = (workload.in_dtype, epilogue.out_dtype, epilogue.residual_dtype)
        if "float16" in dtypes and not target.avx2:
            return False
    elif workload.in_dtype not in _BYTES or workload.weight_dtype in ("int16", "uint16"):
        return False
    return max(workload.k, workload.m) * workload.n < _MOST_ELEMENTS


def _lanes(workload: Spmm) -> int:
    """Columns of a vector: 16, or the largest power of two that y has."""
    return min(_LANES, 1 << (workload.n.bit_length() - 1))


def _registers(target: Target) -> int:
    """Vectors of 16 lanes that registers hold: one of them takes several narrow registers."""
    return 32 if target.avx512 else 10


TEMPLATE = sparse_template("spmm_direct_cpu", matches, _lanes, _registers, depth=1)
