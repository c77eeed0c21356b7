"""Products with tile-wise sparse weights on wgmma: each tile gathers the rows that it keeps.

Tile-wise sparsity is that of Guo et al., "Accelerating Sparse DNNs Based on Tiled GEMM"
(arXiv:2402.10876). Activations are transposed first, so that what a tile needs of them are whole
rows; all tiles are one launch.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.composed.pruned_product import PrunedProduct, pruned_product
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.device.memory.turn import turn_kernel
from autoq.templates.cuda.pruned.tile_wise.config import TileWiseConfig, TileWiseTiling
from autoq.templates.cuda.pruned.tile_wise.cost import estimated_seconds
from autoq.templates.cuda.pruned.tile_wise.kernel import (
    pack_all,
    packed_all,
    product_kernel,
    progress_spec,
    turned_spec,
)
from autoq.templates.cuda.pruned.tile_wise.space import DEPTHS, ROWS, WIDEST, tile_wise_space
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Initially, Program, Stage, Workspace
from autoq.templates.sparse.sparsity import IN_TILES
from autoq.templates.target import Target
from autoq.templates.workload import Constants


def _view(workload: Gemm | FloatGemm) -> PrunedProduct:
    view = pruned_product(workload, *IN_TILES)
    assert view is not None
    return view


def matches(workload: object, target: Target) -> bool:
    """Tile-wise weights of up to 256 columns a tile, of bytes or 16-bit floats, on wgmma."""
    view = pruned_product(workload, *IN_TILES)
    if view is None or view.value.bytes == 4 or not target.has_wgmma:
        return False
    if view.sparsity.granularity > WIDEST:
        return False
    tiling = TileWiseTiling(view, TileWiseConfig(ROWS[-1], 2, DEPTHS[0], 2, 1, 0))
    turned = (view.k, tiling.pitch, view.value.bytes)  # offsets count bytes
    arrays = (turned, (view.m, view.n), packed_all(tiling)[0].shape)
    return tiling.epilogue.supported and indexable(*arrays)


def space(workload: Gemm | FloatGemm, target: Target) -> Space[TileWiseConfig]:
    """`tile_wise_space`, which rings and sums fit."""
    return tile_wise_space(_view(workload), target)


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
