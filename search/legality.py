"""Which codes of a space are legal: cached verdicts, enumeration, and uniform sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from itertools import product
from typing import Any

import numpy as np

from autoq.search.knobs import Knobs

# Largest product of knob values that is walked from end to end: about a minute of one core.
ENUMERATION_LIMIT = 1 << 24
_DRAWS_PER_SAMPLE = 64
_LEAST_DRAWS = 1024
# Walking a space judges every code: a thirty-second of that may go into draws first.
_SIZE_PER_DRAW = 32
# Draws before sampling gives up in a space that is too large to enumerate.
_MOST_DRAWS = 1 << 20


class Legality:
    """The legal codes of a set of knobs under an opaque rule over their values.

    Args:
        knobs: the knobs whose codes are judged.
        accepts: tells whether values, given in knob order, are legal together.
    """

    def __init__(self, knobs: Knobs, accepts: Callable[[tuple[Any, ...]], bool]) -> None:
        self._knobs = knobs
        self._accepts = accepts
        self._verdicts: dict[int, bool] = {}
        self._all: np.ndarray | None = None

    def __contains__(self, code: int) -> bool:
        verdict = self._verdicts.get(code)
        if verdict is None:
            if self._all is not None:
                at = int(np.searchsorted(self._all, code))
                return at < len(self._all) and int(self._all[at]) == code
            verdict = self._verdicts[code] = self._accepts(self._knobs.at(code))
        return verdict

    def mask(self, codes: np.ndarray) -> np.ndarray:
        """Which of codes [n] are legal: bool [n]."""
        if self._all is not None:
            if not len(self._all):
                return np.zeros(len(codes), dtype=bool)
            at = np.minimum(np.searchsorted(self._all, codes), len(self._all) - 1)
            return np.asarray(self._all[at] == codes)
        verdicts = self._verdicts
        listed = codes.tolist()
        new = [code for code in dict.fromkeys(listed) if code not in verdicts]
        if new:
            values = self._knobs.rows(np.array(new, dtype=np.int64))
            verdicts.update(zip(new, map(self._accepts, values), strict=True))
        return np.fromiter(map(verdicts.__getitem__, listed), bool, len(listed))

    def enumerate(self) -> Iterator[int]:
        """All legal codes in ascending order, judged as they are asked for."""
        if self._all is not None:
            yield from self._all.tolist()
            return
        for code, values in enumerate(product(*self._knobs.values)):
            if self._accepts(values):
                yield code

    def all(self) -> np.ndarray:
        """All legal codes, ascending int64; enumerated once and kept."""
        if self._all is None:
            self._all = np.fromiter(self.enumerate(), dtype=np.int64)
            self._verdicts.clear()
        return self._all

    def sample(self, rng: np.random.Generator, n: int, exclude: Set[int]) -> np.ndarray:
        """At most n distinct legal codes outside exclude, uniformly; int64 in random order.

        Fewer come back only when no more exist (or, in a space too large to enumerate, when
        a million draws found no more).
        """
        size = self._knobs.size
        found: dict[int, None] = {}
        enumerable = size <= ENUMERATION_LIMIT
        wanted = max(_LEAST_DRAWS + _DRAWS_PER_SAMPLE * n, size // _SIZE_PER_DRAW)
        draws = wanted if enumerable else _MOST_DRAWS
        if self._all is None and (size > draws or not enumerable):
            while len(found) < n and draws > 0:
                chunk = max(64, 2 * (n - len(found)))
                codes = rng.integers(0, size, chunk)
                draws -= chunk
                for code in codes[self.mask(codes)].tolist():
                    if code not in exclude and len(found) < n:
                        found[code] = None
        picked = np.fromiter(found, dtype=np.int64, count=len(found))
        if len(found) == n or not enumerable:
            return picked
        gone = np.fromiter((*exclude, *found), dtype=np.int64)
        left = np.setdiff1d(self.all(), gone, assume_unique=False)
        more = rng.permutation(left)[: n - len(found)]
        return np.concatenate([picked, more])
