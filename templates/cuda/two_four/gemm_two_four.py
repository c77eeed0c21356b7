"""Products with 2:4 sparse weights on wgmma's sparse tensor cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.two_four.config import TwoFourConfig, TwoFourTiling
from autoq.templates.cuda.two_four.cost import estimated_seconds, features
from autoq.templates.cuda.two_four.view import TwoFourView, view_of
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target
from autoq.templates.workload import Constants

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

_COLUMNS = (64, 128, 192, 256)
_CONSUMERS = (1, 2, 3)
_BLOCKS = (1, 2)
_STAGES = (2, 3, 4, 5, 6, 8)
_GROUPS = (4, 8, 12, 16, 24, 32, 64)
_OTHER_REGISTERS = 32
_OF_AN_INSTRUCTION = 27


def _view(workload: Gemm | FloatGemm) -> TwoFourView:
    view = view_of(workload)
    assert view is not None
    return view


def matches(workload: object, target: Target) -> bool:
    """2:4 weights of bytes or 16-bit floats, on wgmma; rows of x of whole 16 bytes.

    Rows of y are whole words, and no residual and no scales of rows follow the sums.
    """
    view = view_of(workload)
    if view is None or not target.has_wgmma:
        return False
    work = view.workload
    tiling = TwoFourTiling(view, TwoFourConfig(_COLUMNS[-1], 1, 1, 2, 4))
    whole = work.k * view.value.bytes % 16 == 0 and work.n * view.out_bytes % 4 == 0
    arrays = (work.inputs[0].shape, work.outputs[0].shape, (tiling.terms, work.k))
    from autoq.templates.cuda.two_four.kernel import epilogue_of

    return whole and epilogue_of(tiling).supported and indexable(*arrays)


def space(workload: Gemm | FloatGemm, target: Target) -> Space[TwoFourConfig]:
    """Rings and sums that fit a multiprocessor."""
    view = _view(workload)
    knobs = {
        "columns": _COLUMNS,
        "consumers": _CONSUMERS,
        "blocks": _BLOCKS,
        "stages": _STAGES,
        "group": _GROUPS,
        "cluster": (1, 2),
        "passing": _COLUMNS,
    }

    def tiling_of(config: TwoFourConfig) -> TwoFourTiling:
        return TwoFourTiling(view, config)

    def shared_memory_suffices(config: TwoFourConfig) -> bool:
        """The ring and staged outputs fit the target."""
        return tiling_of(config).smem_bytes <= target.smem_bytes

    def registers_suffice(config: TwoFourConfig) -> bool:
        """A thread holds its sums and what addresses take, at launch those of an instruction."""
        tiling = tiling_of(config)
        one = config.columns // 2 + _OF_AN_INSTRUCTION <= tiling.budget.launch
        return one and tiling.sums + _OTHER_REGISTERS <= tiling.budget.consumer

    def tiles_are_filled(config: TwoFourConfig) -> bool:
        """No tile is twice as large as y either way, unless it is the least."""
        tiling, work = tiling_of(config), view.workload
        rows = config.columns == _COLUMNS[0] or config.columns < 2 * work.m
        return rows and (tiling.row_blocks == 1 or tiling.tile_rows < 2 * work.n)

    def clusters_have_tiles(config: TwoFourConfig) -> bool:
        """Each block of a cluster has a tile of weights."""
        return tiling_of(config).weight_tiles % config.cluster == 0

    def passes_are_whole(config: TwoFourConfig) -> bool:
        """Rows of y pass in equal parts."""
        return config.columns % config.passing == 0

    constraints = (
        clusters_have_tiles, passes_are_whole, tiles_are_filled, shared_memory_suffices,
        registers_suffice,
    )  # fmt: skip
    return Space(TwoFourConfig, knobs, constraints, lambda c: features(tiling_of(c), target))


def default(workload: Gemm | FloatGemm, target: Target) -> TwoFourConfig:
    """The legal configuration of least estimated time, with the most stages."""
    legal = space(workload, target).enumerate()
    return min(legal, key=lambda config: (estimate(workload, config, target), -config.stages))


def estimate(workload: Gemm | FloatGemm, config: TwoFourConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(TwoFourTiling(_view(workload), config), target)


def build(workload: Gemm | FloatGemm, config: TwoFourConfig, target: Target) -> PrimFunc:
    """The product; parameters x, the arrays of `packed`, y."""
    from autoq.templates.cuda.two_four.kernel import build_kernel

    return build_kernel(TwoFourTiling(_view(workload), config), target)


def pack(
    workload: Gemm | FloatGemm, config: TwoFourConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The weight and its metadata, and what the epilogue reads."""
    from autoq.templates.cuda.two_four.kernel import pack_all

    return pack_all(TwoFourTiling(_view(workload), config), constants)


def packed(workload: Gemm | FloatGemm, config: TwoFourConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    from autoq.templates.cuda.two_four.kernel import packed_all

    return packed_all(TwoFourTiling(_view(workload), config))


TEMPLATE = Template(
    "gemm_two_four", 1, matches, space, default, build, pack, packed, estimate=estimate
)
