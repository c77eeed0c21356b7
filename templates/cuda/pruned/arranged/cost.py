"""Estimated time of a tile-wise product on sparse tensor cores."""

from __future__ import annotations

from dataclasses import replace

from autoq.templates.cuda.pruned.arranged.config import ArrangedTiling
from autoq.templates.cuda.pruned.two_four.cost import estimated_seconds as product_seconds
from autoq.templates.target import Target

_TILES_MORE = 200
"""Tiles that double the places that k kept in halves by each of them take."""
_FEW = 0.9
"""The share of places that are taken below which stages are left out."""
_STAGES, _SHARED_STAGES = 1.1, 1.25
"""Of the stages that could not be fewer: those of a block, and of two that share rows of x."""
_ORDER_BYTES_A_SECOND = 5e12
_ORDER_SECONDS = 1.5e-6


def estimated_seconds(tiling: ArrangedTiling, target: Target) -> float:
    """Roughly the seconds: x is read and written in order, and multiplied by what is left."""
    view, sparse = tiling.view, tiling.sparse
    tight = 2 * view.sparsity.structure.mean_row
    lying = min(tiling.depth, max(view.k, tight * (1 + view.tiles / _TILES_MORE)))
    depth = lying
    if tight < _FEW * view.k:
        depth = min(lying, tight * (_SHARED_STAGES if tiling.config.cluster > 1 else _STAGES))
    work = replace(sparse.view.workload, k=max(1, int(depth)))
    known = replace(sparse, view=replace(sparse.view, workload=work))
    moved = view.m * (view.k + lying) * view.value.bytes
    order = _ORDER_SECONDS + moved / _ORDER_BYTES_A_SECOND
    return order + product_seconds(known, target)
