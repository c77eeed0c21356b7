"""Products whose weights are 2:4 inside tiles on mma.sp, over x as it lies, with k inside.

A block computes one tile of some rows of y, as `gemm_tile_picked_mma_sync` does. What a tile keeps
of x is the right factor, whose registers are put together of words of x; its weights are the sparse
left one. The pattern is TVW of Guo et al., "Accelerating Sparse DNNs Based on Tiled GEMM"
(arXiv:2402.10876).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.pruned.picked.kernel import packed_all
from autoq.templates.cuda.pruned.picked.operand import operand_of
from autoq.templates.cuda.pruned.picked_mma_sync.cost import features_of
from autoq.templates.cuda.pruned.tile_two_four.config import TileTwoFourConfig, TileTwoFourTiling
from autoq.templates.cuda.pruned.tile_two_four.cost import estimated_seconds
from autoq.templates.cuda.pruned.tile_two_four.kernel import build_kernel, pack_all
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program, Stage
from autoq.templates.sparse.sparsity import TWO_FOUR_TILES
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_LEAST_COMPUTE_CAPABILITY = 80
_ROWS = (64, 128, 256)
_SIDES = (1, 2)
_WARPS = (4, 8)
_X_STAGES = (2, 3, 4, 5, 6)
_STAGES = (3, 4, 6)
_WIDEST = 256
_REGISTERS = 250
_LEAST = TileTwoFourConfig(_ROWS[0], _SIDES[0], _WARPS[0], _X_STAGES[0], _STAGES[0])
"""What takes the least of a multiprocessor."""


def _tiling(workload: Gemm | FloatGemm, config: TileTwoFourConfig) -> TileTwoFourTiling:
    operand = operand_of(workload)
    assert operand is not None
    return TileTwoFourTiling(operand, config)


def matches(workload: object, target: Target) -> bool:
    """Weights in tiles of up to 256 columns that are 2:4 inside, of bytes or 16-bit floats.

    Rows of x are whole units of 16 bytes, and a block fits a multiprocessor without wgmma.
    """
    capable = target.compute_capability >= _LEAST_COMPUTE_CAPABILITY and not target.has_wgmma
    if not capable or not isinstance(workload, Gemm | FloatGemm):
        return False
    operand = operand_of(workload)
    if operand is None or operand.view.sparsity.pattern != TWO_FOUR_TILES:
        return False
    view, tiling = operand.view, _tiling(workload, _LEAST)
    cut = tiling.cut
    arrays = ((view.m, view.k), (view.m, view.n), packed_all(cut)[0].shape)
    fits = view.sparsity.granularity <= _WIDEST and tiling.resident(target) > 0
    return fits and cut.epilogue.supported and indexable(*arrays)


def space(workload: Gemm | FloatGemm, target: Target) -> Space[TileTwoFourConfig]:
    """Rings and sums that fit a multiprocessor."""
    view = _tiling(workload, _LEAST).operand.view
    knobs = {
        "rows": _ROWS, "sides": _SIDES, "warps": _WARPS, "x_stages": _X_STAGES, "stages": _STAGES,
        "ahead": (True, False),
    }  # fmt: skip

    def warps_share_rows(config: TileTwoFourConfig) -> bool:
        """Each warp has 16 rows, or a multiple of them."""
        return config.rows % (16 * config.warps) == 0

    def rows_are_there(config: TileTwoFourConfig) -> bool:
        """No tile is twice as high as y, unless it is the lowest."""
        return config.rows == _ROWS[0] or config.rows < 2 * view.m

    def tiles_are_there(config: TileTwoFourConfig) -> bool:
        """A block has no more tiles than there are."""
        return config.sides == 1 or view.tiles > 1

    def a_block_fits(config: TileTwoFourConfig) -> bool:
        """A multiprocessor has shared memory and registers for a block."""
        tiling = _tiling(workload, config)
        return tiling.registers <= _REGISTERS and tiling.resident(target) > 0

    def known(config: TileTwoFourConfig) -> Mapping[str, float]:
        return features_of(_tiling(workload, config), target, estimate(workload, config, target))

    constraints = (warps_share_rows, rows_are_there, tiles_are_there, a_block_fits)
    return Space(TileTwoFourConfig, knobs, constraints, known)


def default(workload: Gemm | FloatGemm, target: Target) -> TileTwoFourConfig:
    """The legal configuration of least estimated time, words read ahead, with the most stages."""
    legal = space(workload, target).enumerate()

    def preference(config: TileTwoFourConfig) -> tuple[float, bool, int, int]:
        # Words that are read ahead took 2 to 4% less on an H200.
        seconds = estimate(workload, config, target)
        return seconds, not config.ahead, -config.x_stages, -config.stages

    return min(legal, key=preference)


def estimate(workload: Gemm | FloatGemm, config: TileTwoFourConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(_tiling(workload, config), target)


def build(workload: Gemm | FloatGemm, config: TileTwoFourConfig, target: Target) -> Program:
    """One launch; parameters x, further inputs, `packed`, y."""
    kernel = build_kernel(_tiling(workload, config), target)
    names = tuple(spec.name for spec in (*workload.inputs, *packed(workload, config)))
    return Program((Stage(kernel, names, (workload.outputs[0].name,)),))


def pack(
    workload: Gemm | FloatGemm, config: TileTwoFourConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The weight's stages with what they pick, its tiles, and what the epilogue reads."""
    return pack_all(_tiling(workload, config), constants)


def packed(workload: Gemm | FloatGemm, config: TileTwoFourConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_all(_tiling(workload, config).cut)


TEMPLATE = Template(
    "gemm_tile_two_four_mma_sync", 2, matches, space, default, build, pack, packed,
    estimate=estimate,
)  # fmt: skip
"""The product of weights that are 2:4 inside tiles on mma.sp: a block for a tile and rows of y."""
