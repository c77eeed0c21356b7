"""The templates of tile-wise products on a CPU, which differ in the step that they multiply by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cpu.dot import Dot
from autoq.templates.cpu.row_epilogue import finishes_rows
from autoq.templates.cpu.tile_wise.config import (
    TileWiseCpuConfig,
    tile_wise_default,
    tile_wise_space,
)
from autoq.templates.cpu.tile_wise.tiles import TileWiseCpuTiling, kernel
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import IN_TILES
from autoq.templates.target import Target
from autoq.templates.workload import Constants


def is_tile_wise(workload: object, target: Target) -> bool:
    """A product on a CPU whose weight is tile-wise, of bytes or float32, without a table."""
    found = isinstance(workload, Gemm) and workload.sparsity is not None
    return found and workload.sparsity.pattern in IN_TILES and finishes_rows(workload, target)


def tile_wise_template(
    name: str,
    matches: Callable[[object, Target], bool],
    dot_of: Callable[[Gemm, Target], Dot],
    preference: int = 0,
) -> Template:
    """The template of the workloads that `matches` takes, with the step that dot_of gives.

    Kernels take x, residual?, row_scale?, the constants of `TileWiseCpuTiling.pack`, then y.
    """

    def space(workload: Gemm, target: Target) -> Space[TileWiseCpuConfig]:
        return tile_wise_space(workload, dot_of(workload, target), target)

    def default(workload: Gemm, target: Target) -> TileWiseCpuConfig:
        return tile_wise_default(workload, dot_of(workload, target), target)

    def build(workload: Gemm, config: TileWiseCpuConfig, target: Target) -> PrimFunc:
        return kernel(TileWiseCpuTiling(workload, config, dot_of(workload, target)))

    def tiling_of(workload: Gemm, config: TileWiseCpuConfig) -> TileWiseCpuTiling:
        return TileWiseCpuTiling(workload, config, dot_of(workload, Target("cpu", "")))

    def pack(
        workload: Gemm, config: TileWiseCpuConfig, constants: Constants
    ) -> tuple[np.ndarray, ...]:
        return tiling_of(workload, config).pack(constants)

    def packed(workload: Gemm, config: TileWiseCpuConfig) -> tuple[TensorSpec, ...]:
        return tiling_of(workload, config).specs()

    return Template(
        name, 1, matches, space, default, build, pack, packed, preference=preference,
        module=matches.__module__,
    )  # fmt: skip
