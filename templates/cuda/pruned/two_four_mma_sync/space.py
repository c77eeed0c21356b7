"""Configurations of the 2:4 sparse product on mma.sp: rings and sums that fit a multiprocessor."""

from __future__ import annotations

from autoq.search.space import Space
from autoq.templates.cuda.device.launch.occupancy import resource_rules, thread_rule
from autoq.templates.cuda.pruned.two_four.view import TwoFourProduct
from autoq.templates.cuda.pruned.two_four_mma_sync.config import TwoFourMmaConfig, TwoFourMmaTiling
from autoq.templates.cuda.pruned.two_four_mma_sync.cost import features
from autoq.templates.target import Target

_WARPS = (1, 2, 4)
WARP_ROWS = (16, 32, 64)
_STAGES = (2, 3, 4, 5, 6)
_GROUPS = (4, 8, 16)
_BLOCKS_PER_SM = (1, 2, 3)
_LEAST_THREADS, _MOST_THREADS = 64, 512


def two_four_mma_space(view: TwoFourProduct, target: Target) -> Space[TwoFourMmaConfig]:
    """Rings and sums that fit a multiprocessor."""

    def tiling_of(config: TwoFourMmaConfig) -> TwoFourMmaTiling:
        return TwoFourMmaTiling(view, config)

    knobs = {
        "weight_warps": _WARPS,
        "row_warps": _WARPS,
        "warp_rows": WARP_ROWS,
        "stages": _STAGES,
        "group": _GROUPS,
        "blocks_per_sm": _BLOCKS_PER_SM,
    }

    def warps_are_some(config: TwoFourMmaConfig) -> bool:
        """A block has two to sixteen warps."""
        return _LEAST_THREADS <= config.threads <= _MOST_THREADS

    def tiles_are_filled(config: TwoFourMmaConfig) -> bool:
        """No tile is twice as large as y either way, unless of 32 rows or of one warp's columns."""
        tiling, work = tiling_of(config), view.workload
        rows = tiling.tile_rows <= 2 * WARP_ROWS[0] or tiling.tile_rows < 2 * work.m
        return rows and (config.weight_warps == 1 or tiling.tile_weights < 2 * work.n)

    constraints = (
        warps_are_some, tiles_are_filled,
        *resource_rules(tiling_of, lambda tiling, _: tiling.registers, target),
        thread_rule(target),
    )  # fmt: skip
    return Space(TwoFourMmaConfig, knobs, constraints, lambda c: features(tiling_of(c), target))
