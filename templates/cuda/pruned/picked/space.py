"""The space of the kernel that picks: the values of its knobs and the rules of a legal one."""

from __future__ import annotations

from collections.abc import Callable

from autoq.search.space import Space
from autoq.templates.cuda.device.turned.row_steps import LINE_BYTES
from autoq.templates.cuda.pruned.picked.config import PickedConfig, PickedTiling
from autoq.templates.cuda.pruned.picked.cost import features
from autoq.templates.cuda.pruned.picked.operand import Operand
from autoq.templates.target import Target

Rule = Callable[[PickedConfig], bool]
TilingOf = Callable[[PickedConfig], PickedTiling]

ROWS = (64, 128, 192, 256)
_SIDES = (1, 2, 3)
_SPLITS = (1, 2, 3)
_X_STAGES = (2, 3, 4, 6, 8, 12)
_MOST_STAGES = 6
"""Of a ring of x as it lies, whose stages are larger."""
_DEPTHS = (2, 4)
_STAGES = (2, 3, 4, 5, 6)
_JOINED = (1, 2)
_CLUSTERS = (1, 2)
_COLUMNS = (0, 112, 128, 176, 192, 208, 224, 256)
WIDEST = 256
"""Columns of an instruction."""
_MOST_CONSUMERS = 4


def picked_space(operand: Operand, target: Target) -> Space[PickedConfig]:
    """Rings and sums that fit a multiprocessor."""
    knobs = {
        "rows": ROWS,
        "sides": _SIDES,
        "splits": _SPLITS,
        "x_stages": _X_STAGES,
        "depth": _DEPTHS,
        "stages": _STAGES,
        "joined": _JOINED,
        "cluster": _CLUSTERS,
        "picked": (True, False),
        "helped": (False, True),
        "columns": _COLUMNS,
        "bordered": (False, True),
        "blocks": (1, 2),
        "teams": (1, 2),
        "turned": (False, True),
    }

    def tiling_of(config: PickedConfig) -> PickedTiling:
        return PickedTiling(operand, config)

    rules = [*_way_rules(tiling_of), *_tile_rules(operand, tiling_of, target)]
    return Space(PickedConfig, knobs, rules, lambda c: features(tiling_of(c), target))


def _way_rules(tiling_of: TilingOf) -> list[Rule]:
    """Of the ways that x, outputs and their words take."""

    def images_have_borders(config: PickedConfig) -> bool:
        """Tiles with their border are of images, picked, and stored by those who multiply."""
        bordered = tiling_of(config).bordered
        if bordered is None:
            return not config.bordered
        return bordered.possible and config.picked and not config.helped

    def tiles_of_x_turn(config: PickedConfig) -> bool:
        """A step reads two stages of x while others arrive, or a tile with its border."""
        return config.bordered or config.x_stages > 2

    def rows_are_turned(config: PickedConfig) -> bool:
        """Rows of x turned are picked in whole lines of a matrix; their rings have more stages."""
        tiling = tiling_of(config)
        if not config.turned:
            return config.x_stages <= _MOST_STAGES and config.stages != 5
        lines = config.rows * tiling.size % LINE_BYTES == 0
        return lines and config.picked and tiling.operand.images is None and not config.bordered

    def columns_are_free(config: PickedConfig) -> bool:
        """Tiles have another width only where they multiply all of k."""
        return config.columns == 0 or (config.joined == 1 and not config.picked)

    def helpers_have_words(config: PickedConfig) -> bool:
        """Helpers store words of outputs."""
        return not config.helped or tiling_of(config).in_words

    def teams_store(config: PickedConfig) -> bool:
        """One team stores while another one multiplies, without helpers or blocks beside it."""
        return config.teams == 1 or not (config.helped or config.blocks > 1)

    def rings_turn(config: PickedConfig) -> bool:
        """Those who pick hold two stages of weights while they wait for the next one."""
        return config.stages > 2 or not config.picked

    return [
        images_have_borders,
        rows_are_turned,
        tiles_of_x_turn,
        columns_are_free,
        helpers_have_words,
        teams_store,
        rings_turn,
    ]


def _tile_rules(operand: Operand, tiling_of: TilingOf, target: Target) -> list[Rule]:
    """Of tiles, those who multiply them, and what these have."""
    view = operand.view

    def consumers_share_rows(config: PickedConfig) -> bool:
        """Each consumer has 64 rows, or a multiple of them, and there are at most four."""
        shared = config.rows % (64 * config.splits) == 0
        return shared and tiling_of(config).consumers <= _MOST_CONSUMERS

    def rows_are_there(config: PickedConfig) -> bool:
        """No tile is twice as high as y, unless it is the lowest."""
        return config.rows == ROWS[0] or config.rows < 2 * view.m

    def tiles_are_there(config: PickedConfig) -> bool:
        """Joined tiles are as wide as an instruction at most, and every side has some."""
        tiling = tiling_of(config)
        joined = config.joined == 1 or tiling.granularity <= WIDEST
        least = tiling.granularity * (config.sides - 1)
        return joined and (config.sides == 1 or least < view.sparsity.columns)

    def clusters_share_tiles(config: PickedConfig) -> bool:
        """All blocks of a cluster have row tiles of the same tiles."""
        return tiling_of(config).row_tiles % config.cluster == 0

    def shared_memory_suffices(config: PickedConfig) -> bool:
        """The rings and outputs fit the target."""
        return tiling_of(config).fits(target)

    def registers_suffice(config: PickedConfig) -> bool:
        """A thread holds its sums, two steps of fragments and what addresses take."""
        return tiling_of(config).registers_fit

    def stages_hold_steps(config: PickedConfig) -> bool:
        """Those who pick have two steps in a stage of weights; others a part of a stage of x."""
        steps = tiling_of(config).steps_of_stage
        return config.depth == 2 if config.picked else steps % config.depth == 0

    return [
        consumers_share_rows,
        rows_are_there,
        tiles_are_there,
        clusters_share_tiles,
        shared_memory_suffices,
        registers_suffice,
        stages_hold_steps,
    ]
