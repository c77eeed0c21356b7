"""How many of the next configurations each member of a union gets: a bandit over templates."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from autoq.search.strategies.history import History

# What searching may still take off the best time of a member that has had few trials: half of it,
# and less with each further one. A guess on the safe side, since defaults of the products that were
# replayed are within 10% of the best known.
_HOPE = 1.0
_HOPE_TRIALS = 8.0
# Of N trials together, a member gets this times sqrt(N) whatever its times: 3 of 32, 6 of 128.
_LEAST = 0.5


def shares_of(history: History[Any], n: int) -> np.ndarray:
    """How many of n each member gets; what is asked for and not told yet counts as tried."""
    space = history.space
    seen = np.fromiter(history.seen, np.int64, len(history.seen))
    tried = np.bincount(space.members_of(seen), minlength=space.member_count)
    codes, seconds = history.arrays()
    fastest = np.full(space.member_count, np.inf)
    np.minimum.at(fastest, space.members_of(codes), seconds)
    return share_out(n, tried, fastest)


def share_out(n: int, tried: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Shares of n further configurations, one after the other to the member that may win.

    That is the one whose best time, less what further search may take off it, is least. A member
    that lags far behind only gets what keeps its trials at a multiple of the square root of all:
    a share that falls but never ends.

    Args:
        n: configurations to share out.
        tried: configurations each member was given so far, int [members].
        best: seconds of each member's fastest, infinite where none worked, float [members].

    Returns:
        Shares, int64 [members], n together.
    """
    counts = tried.astype(np.float64)
    for _ in range(n):
        member = int(counts.argmin())
        if np.isfinite(best).any() and counts[member] >= _LEAST * sqrt(counts.sum() + 1):
            member = int((best / (1 + _HOPE / (1 + counts / _HOPE_TRIALS))).argmin())
        counts[member] += 1
    return (counts - tried).astype(np.int64)
