"""Which codes of a space are legal: rules over arrays, enumeration, and uniform sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

import numpy as np

from autoq.search.knobs import Knobs
from autoq.search.partial_choices import PartialChoices, allowed
from autoq.search.rule_table import RuleTable

# Largest product of knob values that is walked from end to end: a few seconds of one core.
ENUMERATION_LIMIT = 1 << 24
_DRAWS_PER_SAMPLE = 64
_LEAST_DRAWS = 1024
# Walking a space judges every code: a thirty-second of that may go into draws first.
_SIZE_PER_DRAW = 32
# Draws before sampling gives up in a space that is too large to enumerate.
_MOST_DRAWS = 1 << 20
# Codes that are judged together: at least and at most.
_LEAST_TOGETHER, _MOST_TOGETHER = 256, 1 << 17


class Legality:
    """The legal codes of a set of knobs under plain rules of one configuration.

    Args:
        config_type: dataclass of the configurations.
        knobs: the knobs whose codes are judged.
        rules: true for a legal configuration; each is asked only where those before it hold.
    """

    def __init__(
        self, config_type: type[Any], knobs: Knobs, rules: Sequence[Callable[[Any], bool]]
    ) -> None:
        self._knobs = knobs
        self._tables = [RuleTable(rule, config_type, knobs) for rule in rules]
        self._all: np.ndarray | None = None
        self._partial: PartialChoices | None = None

    def mask(self, codes: np.ndarray) -> np.ndarray:
        """Which of codes [n] are legal: bool [n]."""
        if self._all is not None:
            if not len(self._all):
                return np.zeros(len(codes), dtype=bool)
            at = np.minimum(np.searchsorted(self._all, codes), len(self._all) - 1)
            return np.asarray(self._all[at] == codes)
        return allowed(self._knobs, self._tables, codes)

    def enumerate(self) -> Iterator[int]:
        """All legal codes in ascending order, judged as they are asked for."""
        if self._all is not None:
            yield from self._all.tolist()
            return
        start, together = 0, _LEAST_TOGETHER
        while start < self._knobs.size:
            codes = np.arange(start, min(start + together, self._knobs.size), dtype=np.int64)
            yield from codes[self.mask(codes)].tolist()
            start, together = start + together, min(2 * together, _MOST_TOGETHER)

    def all(self) -> np.ndarray:
        """All legal codes, ascending int64; enumerated once and kept."""
        if self._all is None:
            self._all = np.fromiter(self.enumerate(), dtype=np.int64)
        return self._all

    def _choices(self) -> PartialChoices:
        if self._partial is None:
            self._partial = PartialChoices(self._knobs, self._tables)
        return self._partial

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
            drawn, legal = 0, 0
            while len(found) < n and draws > 0:
                # Each rule costs a millisecond for few codes as for many: as many are judged
                # together as promise, by the share of legal ones so far, all that is wanted.
                share = legal / drawn if legal else 1 / 8
                chunk = max(_LEAST_TOGETHER, int((n - len(found)) / share))
                chunk = min(chunk, _MOST_TOGETHER, draws)
                codes = self._choices().draw(rng, chunk)
                draws -= chunk
                drawn, legal = drawn + chunk, legal + len(codes)
                for code in codes.tolist():
                    if code not in exclude and len(found) < n:
                        found[code] = None
        picked = np.fromiter(found, dtype=np.int64, count=len(found))
        if len(found) == n or not enumerable:
            return picked
        gone = np.fromiter((*exclude, *found), dtype=np.int64)
        left = np.setdiff1d(self.all(), gone, assume_unique=False)
        more = rng.permutation(left)[: n - len(found)]
        return np.concatenate([picked, more])
