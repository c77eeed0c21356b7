"""What a task may still gain, by what its trials have gained so far.

On spaces recorded on an H200 a search that doubles its trials saves 3 to 5% of a kernel's time,
whether it has made 8 trials or 64, and up to some 30 trials what the last doubling saved says
little of what the next one will. A task is therefore judged by its own past only as far as it has
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isinf

# Share of a kernel's time that a doubling of its trials saves, as far as nothing else is known, and
# how many trials of a task weigh as much as that.
_USUAL_SHARE = 0.04
_USUAL_WEIGHT = 24


def gain_of_doubling(best_after: Sequence[float]) -> float:
    """Seconds that as many trials again should save of one kernel.

    best_after: the best time after each trial, seconds, infinite before the first success. The
    result is infinite while there is no success.
    """
    count = len(best_after)
    if not count or isinf(best_after[-1]):
        return inf
    best = best_after[-1]
    before = best_after[(count - 1) // 2]
    usual = _USUAL_SHARE * best
    # A first success gains from nothing: it says as little of what comes as no trials at all.
    past = usual if isinf(before) else before - best
    return (count * past + _USUAL_WEIGHT * usual) / (count + _USUAL_WEIGHT)
