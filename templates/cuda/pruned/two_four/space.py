"""Configurations of the 2:4 sparse product: rings and sums that fit a multiprocessor."""

from __future__ import annotations

from autoq.search.space import Space
from autoq.templates.cuda.pruned.two_four.config import TwoFourConfig, TwoFourTiling
from autoq.templates.cuda.pruned.two_four.cost import features
from autoq.templates.cuda.pruned.two_four.view import TwoFourView
from autoq.templates.target import Target

COLUMNS = (64, 128, 192, 256)
_CONSUMERS = (1, 2, 3)
_BLOCKS = (1, 2)
_STAGES = (2, 3, 4, 5, 6, 8)
_GROUPS = (4, 8, 16, 64)
_OTHER_REGISTERS = 32
_OF_AN_INSTRUCTION = 27


def two_four_space(view: TwoFourView, target: Target) -> Space[TwoFourConfig]:
    """Rings and sums that fit a multiprocessor."""

    def tiling_of(config: TwoFourConfig) -> TwoFourTiling:
        return TwoFourTiling(view, config)

    knobs = {
        "columns": COLUMNS,
        "consumers": _CONSUMERS,
        "blocks": _BLOCKS,
        "stages": _STAGES,
        "group": _GROUPS,
        "cluster": (1, 2),
        "passing": COLUMNS,
        "boxed": (False, True) if view.in_boxes else (False,),
    }

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
        tiling = tiling_of(config)
        work = tiling.view.workload
        rows = config.columns == COLUMNS[0] or config.columns < 2 * work.m
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
