"""The classes of a weight's zeros that kernels make use of, recognised from the weight alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autoq.pruning.recognise import FULL, GRANULARITIES
from autoq.templates.sparse.sparsity import Sparsity


def tile_wise_classes(weight: np.ndarray) -> Iterator[Sparsity]:
    """The tile-wise classes that a weight [n, k] fits, the one that stores least first.

    Of equal ones that of the widest tiles comes first. What tiles keep is almost all nonzero, and
    less than the weight.
    """
    nonzero = np.asarray(weight) != 0
    kept, count = nonzero[nonzero.any(axis=1)], np.count_nonzero(nonzero)
    found = []
    for granularity in sorted(GRANULARITIES):
        if granularity // 2 >= len(kept):
            break  # one tile has them all already
        area = _area(kept, granularity)
        if area >= nonzero.size or FULL * area > count:
            break  # wider tiles keep at least as much
        found.append((area, -granularity))
    for _, granularity in sorted(found):
        yield Sparsity.of_tiles(weight, -granularity)


def _area(kept: np.ndarray, granularity: int) -> int:
    """Weights of tiles of `granularity` of the columns [columns, k]: those of their rows."""
    if not len(kept):
        return 0
    starts = np.arange(0, len(kept), granularity)
    rows = np.logical_or.reduceat(kept, starts, axis=0).sum(axis=1)
    return int(rows @ np.diff(starts, append=len(kept)))
