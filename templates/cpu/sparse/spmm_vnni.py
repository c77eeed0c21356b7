"""Sparse products by AVX512-VNNI's `vpdpbusd`: four rows of the dense side at a time."""

from __future__ import annotations

import numpy as np
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cpu.sparse import spmm_direct
from autoq.templates.cpu.sparse.config import SparseCpuConfig, sparse_default, sparse_space
from autoq.templates.cpu.sparse.tiles import QUAD, SparseTiling, kernel
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.conversion import to_vectors
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants

_LANES, _REGISTERS = 16, 32


def matches(workload: object, target: Target) -> bool:
    """Sparse products of bytes at least 16 columns wide, on a CPU with AVX512-VNNI."""
    has_vnni = target.vnni and target.avx512
    return (
        has_vnni
        and isinstance(workload, Spmm)
        and not workload.floating
        and spmm_direct.matches(workload, target)
        and workload.n >= _LANES
    )


def space(workload: Spmm, target: Target) -> Space[SparseCpuConfig]:
    """Every tile that fits the registers."""
    return sparse_space(workload.short, target, _LANES, _REGISTERS)


def default(workload: Spmm, target: Target) -> SparseCpuConfig:
    """Tiles as wide as registers hold."""
    return sparse_default(workload.short, target, _LANES, _REGISTERS)


def _tiling(workload: Spmm, config: SparseCpuConfig) -> SparseTiling:
    return SparseTiling(workload.short, config.rows, config.vectors, _LANES, QUAD, config.copied)


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


TEMPLATE = Template("spmm_vnni", 1, matches, space, default, build, pack, packed, preference=20)
