"""Products with tile-wise sparse weights on wgmma over x as it lies, with k inside.

Boxes of all k come by TMA, and serve the tiles that a block computes side by side. Each tile picks
the k that it keeps as it reads them into registers, where a PRMT makes neighbours of them; or it
multiplies all k, which leaves out pruned columns alone. Tile-wise sparsity is that of Guo et al.,
"Accelerating Sparse DNNs Based on Tiled GEMM" (arXiv:2402.10876).
"""

from __future__ import annotations

import numpy as np

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.pruned.picked.config import PickedConfig, PickedTiling
from autoq.templates.cuda.pruned.picked.cost import estimated_seconds, features
from autoq.templates.cuda.pruned.picked.kernel import (
    build_kernel,
    pack_all,
    packed_all,
)
from autoq.templates.cuda.pruned.picked.operand import Picked, operand_of
from autoq.templates.program import Program, Stage
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants

_ROWS = (64, 128, 192, 256)
_SIDES = (1, 2, 3)
_SPLITS = (1, 2, 3)
_X_STAGES = (2, 3, 4, 6)
_DEPTHS = (2, 4)
_STAGES = (2, 3, 4, 6)
_JOINED = (1, 2)
_CLUSTERS = (1, 2)
_COLUMNS = (0, 112, 128, 176, 192, 208, 224, 240, 256)
_WIDEST = 256
_MOST_CONSUMERS = 4


def _tiling(workload: Picked, config: PickedConfig) -> PickedTiling:
    operand = operand_of(workload)
    assert operand is not None
    return PickedTiling(operand, config)


def matches(workload: object, target: Target) -> bool:
    """Tile-wise weights of up to 256 columns a tile, of bytes or 16-bit floats, on wgmma.

    Rows of x are whole units of 16 bytes. Convolutions are those of which im2col loads have rows.
    """
    operand = operand_of(workload) if target.has_wgmma else None
    if operand is None or not operand.has_boxes(target):
        return False
    if operand.view.sparsity.granularity > _WIDEST:
        return False
    tiling, view = PickedTiling(operand, PickedConfig(_ROWS[0], 1, 1, 3, 2, 2)), operand.view
    arrays = ((view.m, operand.channels), (view.m, view.n), packed_all(tiling)[0].shape)
    return tiling.epilogue.supported and indexable(*arrays)


def space(workload: Picked, target: Target) -> Space[PickedConfig]:
    """Rings and sums that fit a multiprocessor."""
    operand = operand_of(workload)
    assert operand is not None
    view = operand.view
    knobs = {
        "rows": _ROWS,
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
    }

    def tiling_of(config: PickedConfig) -> PickedTiling:
        return PickedTiling(operand, config)

    def consumers_share_rows(config: PickedConfig) -> bool:
        """Each consumer has 64 rows, or a multiple of them, and there are at most four."""
        shared = config.rows % (64 * config.splits) == 0
        return shared and tiling_of(config).consumers <= _MOST_CONSUMERS

    def rows_are_there(config: PickedConfig) -> bool:
        """No tile is twice as high as y, unless it is the lowest."""
        return config.rows == _ROWS[0] or config.rows < 2 * view.m

    def tiles_are_there(config: PickedConfig) -> bool:
        """Joined tiles are as wide as an instruction at most, and every side has some."""
        tiling = tiling_of(config)
        joined = config.joined == 1 or tiling.granularity <= _WIDEST
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

    def rings_turn(config: PickedConfig) -> bool:
        """Those who pick hold two stages of weights while they wait for the next one."""
        return config.stages > 2 or not config.picked

    def helpers_have_words(config: PickedConfig) -> bool:
        """Helpers store words of outputs."""
        return not config.helped or tiling_of(config).in_words

    def teams_store(config: PickedConfig) -> bool:
        """One team stores while another one multiplies, without helpers or blocks beside it."""
        return config.teams == 1 or not (config.helped or config.blocks > 1)

    def columns_are_free(config: PickedConfig) -> bool:
        """Tiles have another width only where they multiply all of k."""
        return config.columns == 0 or (config.joined == 1 and not config.picked)

    def images_have_borders(config: PickedConfig) -> bool:
        """Tiles with their border are of images, picked, and stored by those who multiply."""
        bordered = tiling_of(config).bordered
        if bordered is None:
            return not config.bordered
        return bordered.possible and config.picked and not config.helped

    def tiles_of_x_turn(config: PickedConfig) -> bool:
        """A step reads two stages of x while others arrive, or a tile with its border."""
        return config.bordered or config.x_stages > 2

    constraints = (
        images_have_borders,
        tiles_of_x_turn,
        columns_are_free,
        helpers_have_words,
        teams_store,
        rings_turn,
        consumers_share_rows,
        rows_are_there,
        tiles_are_there,
        clusters_share_tiles,
        shared_memory_suffices,
        registers_suffice,
        stages_hold_steps,
    )
    return Space(PickedConfig, knobs, constraints, lambda c: features(tiling_of(c), target))


def default(workload: Picked, target: Target) -> PickedConfig:
    """The legal configuration of least estimated time."""
    legal = space(workload, target).enumerate()
    return min(legal, key=lambda config: estimate(workload, config, target))


def estimate(workload: Picked, config: PickedConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(_tiling(workload, config), target)


def build(workload: Picked, config: PickedConfig, target: Target) -> Program:
    """One launch; parameters x, further inputs, `packed`, y."""
    kernel = build_kernel(_tiling(workload, config), target)
    names = tuple(spec.name for spec in (*workload.inputs, *packed(workload, config)))
    return Program((Stage(kernel, names, (workload.outputs[0].name,)),))


def pack(workload: Picked, config: PickedConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """What `pack_all` gives."""
    return pack_all(_tiling(workload, config), constants)


def packed(workload: Picked, config: PickedConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_all(_tiling(workload, config))


TEMPLATE = Template(
    "gemm_tile_picked", 1, matches, space, default, build, pack, packed, estimate=estimate
)
