"""The templates of tile-wise products on a CPU, which differ in the step that they multiply by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cpu.dot import Dot
from autoq.templates.cpu.tile_wise.config import (
    TileWiseCpuConfig,
    tile_wise_default,
    tile_wise_space,
)
from autoq.templates.cpu.tile_wise.tiles import TileWiseCpuTiling, kernel
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import TILE_WISE
from autoq.templates.storage import is_four_bit
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants

_MOST_ELEMENTS = 1 << 31


def is_tile_wise(workload: object, target: Target) -> bool:
    """A product on a CPU whose weight is tile-wise, of bytes or float32, without a table."""
    if not isinstance(workload, Gemm) or target.kind != "cpu" or workload.sparsity is None:
        return False
    epilogue = workload.epilogue
    narrow = workload.has_four_bits or is_four_bit(epilogue.residual_dtype or "int8")
    beside = epilogue.table or epilogue.scale_group or epilogue.factor
    if workload.sparsity.pattern != TILE_WISE or narrow or beside:
        return False
    if workload.in_dtype == "float32" and not epilogue.of_convolutions:
        return False
    halves = "float16" in (epilogue.out_dtype, epilogue.residual_dtype)
    if halves and not target.avx2:
        return False
    return max(workload.k, workload.n) * workload.m < _MOST_ELEMENTS


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

    return Template(name, 1, matches, space, default, build, pack, packed, preference=preference)
