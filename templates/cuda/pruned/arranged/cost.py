"""Estimated time of a tile-wise product on sparse tensor cores."""

from __future__ import annotations

from dataclasses import replace

from autoq.templates.cuda.pruned.arranged.config import ArrangedTiling
from autoq.templates.cuda.two_four.cost import estimated_seconds as product_seconds
from autoq.templates.target import Target

_TILES_MORE = 125
"""Tiles that double what k kept in halves by each of them take in groups of four."""
_ORDER_BYTES_A_SECOND = 6e12
_ORDER_SECONDS = 1.5e-6


def estimated_seconds(tiling: ArrangedTiling, target: Target) -> float:
    """Roughly the seconds: x is read and written in order, and multiplied by what is left."""
    view, sparse = tiling.view, tiling.sparse
    structure = view.sparsity.structure
    tight = 2 * structure.mean_row * (1 + view.tiles / _TILES_MORE)
    depth = int(min(tiling.depth, max(view.k, tight)))
    work = replace(sparse.view.workload, k=-(-depth // 128) * 128)
    known = replace(sparse, view=replace(sparse.view, workload=work))
    moved = view.m * (view.k + depth) * view.value.bytes
    order = _ORDER_SECONDS + moved / _ORDER_BYTES_A_SECOND
    return order + product_seconds(known, target)
