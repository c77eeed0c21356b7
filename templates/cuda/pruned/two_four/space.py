"""Configurations of the 2:4 sparse product: rings and sums that fit a multiprocessor."""

from __future__ import annotations

from autoq.search.space import Space
from autoq.templates.cuda.pruned.two_four.config import TwoFourConfig, TwoFourTiling
from autoq.templates.cuda.pruned.two_four.cost import features
from autoq.templates.cuda.pruned.two_four.view import TwoFourProduct
from autoq.templates.target import Target

COLUMNS = (64, 128, 192, 256)
_CONSUMERS = (1, 2, 3)
_BLOCKS = (1, 2)
_STAGES = (2, 3, 4, 5, 6, 8)
_GROUPS = (4, 8, 16, 64)
_PASSING = (64, 96, 128, 192, 256)
_OTHER_REGISTERS = 32
_OF_AN_INSTRUCTION = 27


def two_four_space(view: TwoFourProduct, target: Target) -> Space[TwoFourConfig]:
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
        "passing": _PASSING,
        "boxed": (False, True) if view.in_boxes else (False,),
        "halved": (False, True),
    }

    def shared_memory_suffices(config: TwoFourConfig) -> bool:
        """The ring and staged outputs fit the target."""
        return tiling_of(config).smem_bytes <= target.smem_bytes

    def registers_suffice(config: TwoFourConfig) -> bool:
        """A thread holds its sums and what addresses take, at launch those of an instruction."""
        tiling = tiling_of(config)
        one = config.columns // 2 + _OF_AN_INSTRUCTION <= tiling.budget.launch
        held = tiling.sums + (tiling.sums // 4 if view.residual else 0)
        return one and held + _OTHER_REGISTERS <= tiling.budget.consumer

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
        """Rows of y pass in equal parts, those of half a tile as well."""
        return config.columns // (2 if config.halved else 1) % config.passing == 0

    def halves_are_one_round(config: TwoFourConfig) -> bool:
        """Halves are of tiles whose x two blocks share, and a part of what clusters can take."""
        tiling = tiling_of(config)
        some = 0 < tiling.halves(target) <= tiling.clusters(target)
        return not config.halved or (config.cluster == 2 and some)

    constraints = (
        clusters_have_tiles, passes_are_whole, halves_are_one_round, tiles_are_filled,
        shared_memory_suffices, registers_suffice,
    )  # fmt: skip
    return Space(TwoFourConfig, knobs, constraints, lambda c: features(tiling_of(c), target))
