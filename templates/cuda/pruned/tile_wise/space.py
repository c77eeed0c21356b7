"""The space of tile-wise products: the values of their knobs and the rules of a legal one."""

from __future__ import annotations

from collections.abc import Callable

from autoq.search.space import Space
from autoq.templates.composed.pruned_product import PrunedProduct
from autoq.templates.cuda.pruned.tile_wise.config import TileWiseConfig, TileWiseTiling
from autoq.templates.cuda.pruned.tile_wise.cost import features
from autoq.templates.cuda.pruned.tile_wise.tiling import BESIDE_SUMS
from autoq.templates.target import Target

Rule = Callable[[TileWiseConfig], bool]
TilingOf = Callable[[TileWiseConfig], TileWiseTiling]

ROWS = (64, 128, 192, 256)
_CONSUMERS = (1, 2, 3, 4)
DEPTHS = (2, 4)
_STAGES = (2, 3, 4, 5, 6, 8, 10, 12)
_BLOCKS = (1, 2)
_JOINED = (1, 2)
_CLUSTERS = (1, 2)
WIDEST = 256
"""Columns of an instruction."""
_OTHER_REGISTERS = 32
_SWIZZLE_BYTES = 128


def tile_wise_space(view: PrunedProduct, target: Target) -> Space[TileWiseConfig]:
    """Rings and sums that fit a multiprocessor."""
    knobs = {
        "rows": ROWS,
        "consumers": _CONSUMERS,
        "depth": DEPTHS,
        "stages": _STAGES,
        "blocks": _BLOCKS,
        "bulk": (0, 2, 4),
        "joined": _JOINED,
        "cluster": _CLUSTERS,
        "ahead": (False, True),
        "swizzled": (False, True),
        "helped": (False, True),
        "fused": (False, True),
    }

    def tiling_of(config: TileWiseConfig) -> TileWiseTiling:
        return TileWiseTiling(view, config)

    rules = [*_copy_rules(view, tiling_of), *_tile_rules(view, tiling_of, target)]
    return Space(TileWiseConfig, knobs, rules, lambda c: features(tiling_of(c), target))


def _copy_rules(view: PrunedProduct, tiling_of: TilingOf) -> list[Rule]:
    """Of those who copy rows of x, and of helpers."""

    def lines_are_whole(config: TileWiseConfig) -> bool:
        """Swizzled rows are whole lines of 128 bytes, and copied by threads."""
        whole = config.rows * view.value.bytes % _SWIZZLE_BYTES == 0
        return not config.swizzled or (whole and config.bulk == 0)

    def helpers_turn(config: TileWiseConfig) -> bool:
        """Who turns x in the same launch are helpers."""
        return config.helped or not config.fused

    def helpers_have_room(config: TileWiseConfig) -> bool:
        """Helpers have their registers, and outputs are stored as words."""
        return tiling_of(config).helpers_fit

    def warps_copy_together(config: TileWiseConfig) -> bool:
        """All lanes of a warp have pieces of rows that threads copy."""
        return tiling_of(config).pieces_of_warp % 32 == 0

    return [
        lines_are_whole,
        helpers_turn,
        helpers_have_room,
        warps_copy_together,
    ]


def _tile_rules(view: PrunedProduct, tiling_of: TilingOf, target: Target) -> list[Rule]:
    """Of tiles, those who multiply them, and what these have."""

    def tiles_are_joined(config: TileWiseConfig) -> bool:
        """Joined tiles are as wide as an instruction at most, and there are some."""
        return config.joined == 1 or (
            tiling_of(config).granularity <= WIDEST and config.joined <= view.tiles
        )

    def clusters_share_tiles(config: TileWiseConfig) -> bool:
        """All blocks of a cluster have row tiles of the same tile."""
        return tiling_of(config).row_tiles % config.cluster == 0

    def consumers_share_rows(config: TileWiseConfig) -> bool:
        """Each consumer has 64 rows, or a multiple of them."""
        return config.rows % (64 * config.consumers) == 0

    def rows_are_there(config: TileWiseConfig) -> bool:
        """No tile is twice as high as y, unless it is the lowest."""
        return config.rows == ROWS[0] or config.rows < 2 * view.m

    def shared_memory_suffices(config: TileWiseConfig) -> bool:
        """The rings and sums of the blocks of a multiprocessor fit the target."""
        return tiling_of(config).fits(target)

    def registers_suffice(config: TileWiseConfig) -> bool:
        """A thread holds its sums, two steps of fragments and what addresses take."""
        tiling = tiling_of(config)
        needed = tiling.sums + 8 * tiling.blocks_m + _OTHER_REGISTERS
        return needed <= tiling.budget.consumer

    def instructions_fit_at_launch(config: TileWiseConfig) -> bool:
        """The sums of an instruction fit the registers that a thread is launched with."""
        tiling = tiling_of(config)
        return tiling.width // 2 + BESIDE_SUMS <= tiling.budget.launch

    return [
        tiles_are_joined,
        clusters_share_tiles,
        consumers_share_rows,
        rows_are_there,
        shared_memory_suffices,
        registers_suffice,
        instructions_fit_at_launch,
    ]
