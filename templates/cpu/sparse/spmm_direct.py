"""Sparse products on any CPU: rows of the dense side widened, one after the other."""

from __future__ import annotations

import numpy as np
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cpu.sparse.config import SparseCpuConfig, sparse_default, sparse_space
from autoq.templates.cpu.sparse.tiles import SparseTiling, kernel
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.conversion import to_vectors
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants

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


def space(workload: Spmm, target: Target) -> Space[SparseCpuConfig]:
    """Every tile that fits the registers."""
    return sparse_space(workload.short, target, _lanes(workload), _registers(target))


def default(workload: Spmm, target: Target) -> SparseCpuConfig:
    """Tiles as wide as registers hold."""
    return sparse_default(workload.short, target, _lanes(workload), _registers(target))


def _tiling(workload: Spmm, config: SparseCpuConfig) -> SparseTiling:
    return SparseTiling(
        workload.short, config.rows, config.vectors, _lanes(workload), 1, config.copied
    )


def build(workload: Spmm, config: SparseCpuConfig, target: Target) -> PrimFunc:
    """The product; parameters b, residual?, those of `SparseTiling.specs`, y."""
    return kernel(_tiling(workload, config))


def pack(workload: Spmm, config: SparseCpuConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """What `SparseTiling.pack` gives."""
    tiling = _tiling(workload, config)
    matrix = to_vectors(workload.matrix(constants), tiling.workload.vector)
    return tiling.pack(matrix, constants)


def packed(workload: Spmm, config: SparseCpuConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return _tiling(workload, config).specs()


TEMPLATE = Template("spmm_direct_cpu", 1, matches, space, default, build, pack, packed)
