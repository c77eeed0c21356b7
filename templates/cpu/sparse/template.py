"""The templates of sparse products on a CPU, which differ in their vectors and steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cpu.sparse.config import SparseCpuConfig, sparse_default, sparse_space
from autoq.templates.cpu.sparse.tiles import SparseTiling, kernel
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.conversion import to_vectors
from autoq.templates.target import Target
from autoq.templates.workload import Constants


def sparse_template(
    name: str,
    matches: Callable[[object, Target], bool],
    lanes_of: Callable[[Spmm], int],
    registers_of: Callable[[Target], int],
    depth: int,
    preference: int = 0,
) -> Template:
    """The template of the workloads that `matches` takes.

    lanes_of: columns of a vector; registers_of: vectors of 16 lanes that registers hold; depth:
    rows of the dense side of a step. Kernels take b, residual?, `SparseTiling.specs`, then y.
    """

    def space(workload: Spmm, target: Target) -> Space[SparseCpuConfig]:
        return sparse_space(workload.short, target, lanes_of(workload), registers_of(target))

    def default(workload: Spmm, target: Target) -> SparseCpuConfig:
        return sparse_default(workload.short, target, lanes_of(workload), registers_of(target))

    def tiling_of(workload: Spmm, config: SparseCpuConfig) -> SparseTiling:
        return SparseTiling(
            workload.short, config.rows, config.vectors, lanes_of(workload), depth, config.copied
        )

    def build(workload: Spmm, config: SparseCpuConfig, target: Target) -> PrimFunc:
        return kernel(tiling_of(workload, config))

    def pack(
        workload: Spmm, config: SparseCpuConfig, constants: Constants
    ) -> tuple[np.ndarray, ...]:
        tiling = tiling_of(workload, config)
        matrix = to_vectors(workload.matrix(constants), tiling.workload.vector)
        return tiling.pack(matrix, constants)

    def packed(workload: Spmm, config: SparseCpuConfig) -> tuple[TensorSpec, ...]:
        return tiling_of(workload, config).specs()

    return Template(
        name, 1, matches, space, default, build, pack, packed, preference=preference,
        module=matches.__module__,
    )  # fmt: skip
