"""What a strategy has asked for and been told, by code."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Generic, TypeVar

import numpy as np

from autoq.search.search_space import SearchSpace
from autoq.search.trial import Trial

C = TypeVar("C")


class History(Generic[C]):
    """Seen and measured codes of one search.

    Attributes:
        seen: codes asked for or told; none of them is asked for again.
        seconds: time of each told code; infinite for a failure. Of several trials of one
            configuration the fastest counts.
    """

    def __init__(self, space: SearchSpace[C]) -> None:
        self.space = space
        self.seen: set[int] = set()
        self.seconds: dict[int, float] = {}

    def add(self, trials: Sequence[Trial[C]]) -> None:
        """Take in trials; those of configurations outside the space are passed over."""
        for trial in trials:
            if trial.config not in self.space:
                continue
            code = self.space.code(trial.config)
            seconds = inf if trial.seconds is None else trial.seconds
            self.seen.add(code)
            self.seconds[code] = min(seconds, self.seconds.get(code, inf))

    def hand_out(self, codes: np.ndarray) -> list[C]:
        """The configurations of codes [n], which count as seen from now on."""
        listed = codes.tolist()
        self.seen.update(listed)
        return [self.space.config(code) for code in listed]

    def fill(self, codes: Sequence[int], n: int, rng: np.random.Generator) -> np.ndarray:
        """Unseen codes [at most n]: the first n of the given ones, then random others."""
        kept = np.array(list(codes)[:n], dtype=np.int64)
        if len(kept) == n:
            return kept
        random = self.space.sample_codes(rng, n - len(kept), self.seen | set(kept.tolist()))
        return np.concatenate([kept, random])

    def unseen(self, codes: np.ndarray) -> list[int]:
        """Those of codes [n] that were neither asked for nor told, each once, in their order."""
        found = [code for code in codes.tolist() if code not in self.seen]
        return list(dict.fromkeys(found))

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Told codes int64 [m] and their seconds float64 [m], infinite for failures."""
        codes = np.fromiter(self.seconds, np.int64, len(self.seconds))
        seconds = np.fromiter(self.seconds.values(), np.float64, len(self.seconds))
        return codes, seconds

    @property
    def successes(self) -> int:
        """Number of told codes that have a time."""
        return sum(seconds < inf for seconds in self.seconds.values())
