"""Element-wise pruning (EW): single weights, algorithm 2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.pruning.ranking import Bounds, Units, select
from autoq.templates.sparse.pruned_matrix import Elements


def element_wise(
    scores: Sequence[np.ndarray], sparsity: float, bounds: Sequence[Bounds]
) -> list[Elements]:
    """The most important weights of matrices [k, n], ranked together."""
    units = [
        Units(one.ravel(), np.ones(one.size), bound.least * one.size, bound.most * one.size)
        for one, bound in zip(scores, bounds, strict=True)
    ]
    chosen = select(units, sparsity * sum(one.size for one in scores))
    return [Elements(~c.reshape(one.shape)) for c, one in zip(chosen, scores, strict=True)]
