"""Prunes matrices together, in one pattern to one sparsity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.errors import InputError
from autoq.pruning.pattern import TOLERANCE, Pattern
from autoq.pruning.patterns.block_wise import block_wise
from autoq.pruning.patterns.element_wise import element_wise
from autoq.pruning.patterns.tile_element_wise import tile_element_wise
from autoq.pruning.patterns.tile_vector_wise import tile_vector_wise
from autoq.pruning.patterns.tile_wise import tile_wise
from autoq.pruning.patterns.vector_wise import vector_wise
from autoq.pruning.ranking import Bounds
from autoq.pruning.ties import NO_TIES, Ties
from autoq.templates.sparse.pruned_matrix import Pruned

_ROUNDING = 1e-9


def default_bounds(sparsity: float) -> Bounds:
    """Every matrix keeps at least a quarter of the share that all of them keep together."""
    return Bounds(0.0, 1 - (1 - sparsity) / 4)


def prune_matrices(
    scores: Sequence[np.ndarray],
    pattern: Pattern,
    sparsity: float,
    bounds: Sequence[Bounds] | None = None,
    ties: Ties = NO_TIES,
    tolerance: float = TOLERANCE,
) -> list[Pruned]:
    """Which weights of matrices [k, n] stay, by their scores in one ranking of all.

    scores: of each matrix, float [k, n], no less than 0. sparsity: the share of all weights
    together that is pruned, reached within `tolerance` of them. bounds: of the sparsity of each
    matrix, `default_bounds` where None. ties: as in `tile_wise`, of tw, trw and tvw.
    Raises InputError where the pattern, the bounds or the matrices do not allow that sparsity.
    """
    pattern.require_sparsity(sparsity)
    for one in scores:
        if one.ndim != 2 or not one.size:
            raise InputError(f"scores are {list(one.shape)}; a matrix [k, n] is expected")
    if not scores:
        raise InputError("no matrix to prune; give one or more")
    bounds = [default_bounds(sparsity)] * len(scores) if bounds is None else bounds
    _require_bounds(scores, pattern, sparsity, bounds)
    made = _pruned(scores, pattern, sparsity, bounds, ties)
    kept = sum(int(np.count_nonzero(one.mask)) for one in made)
    reached = 1 - kept / sum(one.size for one in scores)
    if abs(reached - sparsity) > tolerance:
        raise InputError(
            f"sparsity {sparsity:g}: {pattern} comes to {reached:.4g} at the nearest on these "
            "matrices; give that, wider bounds or a smaller granularity"
        )
    return made


def _require_bounds(
    scores: Sequence[np.ndarray], pattern: Pattern, sparsity: float, bounds: Sequence[Bounds]
) -> None:
    if len(bounds) != len(scores):
        raise InputError(f"{len(bounds)} bounds of {len(scores)} matrices; give each its own")
    for one in bounds:
        if not 0 <= one.least <= one.most <= 1:
            raise InputError(
                f"bounds {one.least:g} to {one.most:g}: sparsities from 0 to 1, the least first"
            )
        outside = not one.least - _ROUNDING <= sparsity <= one.most + _ROUNDING
        if pattern.kind == "vw" and outside:
            raise InputError(
                f"bounds {one.least:g} to {one.most:g}: {pattern} prunes every matrix to "
                f"{sparsity:g}; take that in"
            )
        if one.most < pattern.least:
            raise InputError(
                f"bounds {one.least:g} to {one.most:g}: {pattern} prunes {pattern.least:g} or more"
            )
    total = sum(one.size for one in scores)
    least, most = (
        sum(limit * one.size for limit, one in zip(limits, scores, strict=True)) / total
        for limits in ([one.least for one in bounds], [one.most for one in bounds])
    )
    if not least - TOLERANCE <= sparsity <= most + TOLERANCE:
        raise InputError(
            f"sparsity {sparsity:g}: the bounds allow {least:.4g} to {most:.4g} together; give "
            "such a one, or wider bounds"
        )


def _pruned(
    scores: Sequence[np.ndarray],
    pattern: Pattern,
    sparsity: float,
    bounds: Sequence[Bounds],
    ties: Ties,
) -> list[Pruned]:
    common = (scores, sparsity, bounds)
    g = pattern.granularity
    match pattern.kind:
        case "ew":
            return [*element_wise(*common)]
        case "vw":
            return [*vector_wise(scores, pattern.vector_of(sparsity))]
        case "bw":
            return [*block_wise(*common, g)]
        case "tew":
            return [*tile_element_wise(*common, g, pattern.delta)]
        case "tvw":
            return [*tile_vector_wise(*common, g, pattern.vector, ties)]
    run = pattern.run if pattern.kind == "trw" else 1
    return [*tile_wise(*common, g, run, ties)]
