"""Products with tile-wise sparse weights on wgmma: each tile gathers the rows that it keeps.

Tile-wise sparsity is that of Guo et al., "Accelerating Sparse DNNs Based on Tiled GEMM"
(arXiv:2402.10876). Activations are transposed first, so that what a tile needs of them are whole
rows; all tiles are one launch.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.device.memory.turn import turn_kernel
from autoq.templates.cuda.pruned.product import PrunedProduct, pruned_product
from autoq.templates.cuda.pruned.tile_wise.config import TileWiseConfig, TileWiseTiling
from autoq.templates.cuda.pruned.tile_wise.cost import estimated_seconds, features
from autoq.templates.cuda.pruned.tile_wise.kernel import (
    pack_all,
    packed_all,
    product_kernel,
    progress_spec,
    turned_spec,
)
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Initially, Program, Stage, Workspace
from autoq.templates.sparse.sparsity import TILE_WISE
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants

_ROWS = (64, 128, 192, 256)
_CONSUMERS = (1, 2, 3, 4)
_DEPTHS = (2, 4)
_STAGES = (2, 3, 4, 5, 6, 8, 10, 12)
_BLOCKS = (1, 2)
_JOINED = (1, 2)
_CLUSTERS = (1, 2)
_WIDEST = 256
_OTHER_REGISTERS = 32
SWIZZLE_BYTES = 128


def _view(workload: Gemm | FloatGemm) -> PrunedProduct:
    view = pruned_product(workload, TILE_WISE)
    assert view is not None
    return view


def matches(workload: object, target: Target) -> bool:
    """Tile-wise weights of up to 256 columns a tile, of bytes or 16-bit floats, on wgmma."""
    view = pruned_product(workload, TILE_WISE)
    if view is None or view.value.bytes == 4 or not target.has_wgmma:
        return False
    if view.sparsity.granularity > _WIDEST:
        return False
    tiling = TileWiseTiling(view, TileWiseConfig(_ROWS[-1], 2, _DEPTHS[0], 2, 1, 0))
    turned = (view.k, tiling.pitch, view.value.bytes)  # offsets count bytes
    arrays = (turned, (view.m, view.n), packed_all(tiling)[0].shape)
    return tiling.epilogue.supported and indexable(*arrays)


def space(workload: Gemm | FloatGemm, target: Target) -> Space[TileWiseConfig]:
    """Rings and sums that fit a multiprocessor."""
    view = _view(workload)
    knobs = {
        "rows": _ROWS,
        "consumers": _CONSUMERS,
        "depth": _DEPTHS,
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

    def consumers_share_rows(config: TileWiseConfig) -> bool:
        """Each consumer has 64 rows, or a multiple of them."""
        return config.rows % (64 * config.consumers) == 0

    def shared_memory_suffices(config: TileWiseConfig) -> bool:
        """The rings and sums of the blocks of a multiprocessor fit the target."""
        return tiling_of(config).fits(target)

    def registers_suffice(config: TileWiseConfig) -> bool:
        """A thread holds its sums, two steps of fragments and what addresses take."""
        tiling = tiling_of(config)
        needed = tiling.sums + 8 * tiling.blocks_m + _OTHER_REGISTERS
        return needed <= tiling.budget.consumer

    def rows_are_there(config: TileWiseConfig) -> bool:
        """No tile is twice as high as y, unless it is the lowest."""
        return config.rows == _ROWS[0] or config.rows < 2 * view.m

    def tiles_are_joined(config: TileWiseConfig) -> bool:
        """Joined tiles are as wide as an instruction at most, and there are some."""
        return config.joined == 1 or (
            tiling_of(config).granularity <= _WIDEST and config.joined <= view.tiles
        )

    def clusters_share_tiles(config: TileWiseConfig) -> bool:
        """All blocks of a cluster have row tiles of the same tile."""
        return tiling_of(config).row_tiles % config.cluster == 0

    def warps_copy_together(config: TileWiseConfig) -> bool:
        """All lanes of a warp have pieces of rows that threads copy."""
        return tiling_of(config).pieces_of_warp % 32 == 0

    def helpers_have_room(config: TileWiseConfig) -> bool:
        """Helpers have their registers, and outputs are stored as words."""
        return tiling_of(config).helpers_fit

    def lines_are_whole(config: TileWiseConfig) -> bool:
        """Swizzled rows are whole lines of 128 bytes, and copied by threads."""
        whole = config.rows * view.value.bytes % SWIZZLE_BYTES == 0
        return not config.swizzled or (whole and config.bulk == 0)

    def helpers_turn(config: TileWiseConfig) -> bool:
        """Who turns x in the same launch are helpers."""
        return config.helped or not config.fused

    constraints = (
        lines_are_whole,
        helpers_turn,
        helpers_have_room,
        warps_copy_together,
        tiles_are_joined,
        clusters_share_tiles,
        consumers_share_rows,
        rows_are_there,
        shared_memory_suffices,
        registers_suffice,
    )
    return Space(TileWiseConfig, knobs, constraints, lambda c: features(tiling_of(c), target))


def default(workload: Gemm | FloatGemm, target: Target) -> TileWiseConfig:
    """The legal configuration of least estimated time."""
    return cheapest(workload, target, space(workload, target).enumerate())


def cheapest(
    workload: Gemm | FloatGemm, target: Target, configs: Iterable[TileWiseConfig]
) -> TileWiseConfig:
    """The configuration of least estimated time."""
    return min(configs, key=lambda config: estimate(workload, config, target))


def estimate(workload: Gemm | FloatGemm, config: TileWiseConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(TileWiseTiling(_view(workload), config), target)


def build(workload: Gemm | FloatGemm, config: TileWiseConfig, target: Target) -> Program:
    """The transposition of x, then the product; parameters x, further inputs, `packed`, y.

    Fused they are one launch, and counts of what is turned are a workspace.
    """
    tiling = TileWiseTiling(_view(workload), config)
    x, *others = workload.inputs
    turned = turned_spec(tiling)
    constants = (spec.name for spec in (*others, *packed(workload, config)))
    product, (y,) = product_kernel(tiling, target), workload.outputs
    if config.fused:
        progress = progress_spec(tiling)
        reads = (x.name, *constants, progress.name)
        stage = Stage(product, reads, (turned.name, y.name, progress.name))
        counts = Workspace(progress, Initially.STAYS_ZERO)
        return Program((stage,), (Workspace(turned), counts))
    turn = Stage(turn_kernel(x, turned, target), (x.name,), (turned.name,))
    return Program(
        (turn, Stage(product, (turned.name, *constants), (y.name,))), (Workspace(turned),)
    )


def pack(
    workload: Gemm | FloatGemm, config: TileWiseConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """What `pack_all` gives."""
    return pack_all(TileWiseTiling(_view(workload), config), constants)


def packed(workload: Gemm | FloatGemm, config: TileWiseConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_all(TileWiseTiling(_view(workload), config))


TEMPLATE = Template(
    "gemm_tile_wise", 2, matches, space, default, build, pack, packed, estimate=estimate
)
