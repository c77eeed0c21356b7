"""A recorded sub-space as a space of its own: what was measured is legal, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Generic, TypeVar, cast

import numpy as np

from autoq.errors import ConfigError
from autoq.search.search_space import SearchSpace

C = TypeVar("C")

# Recorded configurations that a move chooses among: those of least distance, at least so many.
_LEAST_NEIGHBOURS = 8
# Probability that a move goes to any recorded configuration of another member, as in a union.
_SWITCH = 0.05
_ROWS_AT_ONCE = 256


class RecordedSpace(Generic[C]):
    """The recorded configurations of a space, in which strategies search without a device.

    A move goes to one of the recorded configurations that differ in fewest knobs, of which it
    takes at least eight: in a sample of a large space hardly any two differ in one knob alone. A
    child of two parents is the recorded configuration nearest to the knobs that it drew.
    Codes and features are those of the whole space, so strategies see what they would see live.

    Args:
        space: what was recorded a part of.
        recorded: legal configurations of it.

    Raises:
        ConfigError: when none was recorded, or one is not legal.
    """

    def __init__(self, space: SearchSpace[C], recorded: Iterable[C]) -> None:
        self._space = space
        by_code = {space.code(config): config for config in recorded}
        if not by_code:
            raise ConfigError("a recorded space needs at least one configuration")
        self._codes = np.sort(np.fromiter(by_code, np.int64, len(by_code)))
        self._configs = [by_code[code] for code in self._codes.tolist()]
        self._features = space.encode_codes(self._codes)
        self._knobs = space.knob_rows(self._codes)
        self._members = space.members_of(self._codes)
        self._neighbours = _neighbours(self._knobs, self._members)

    @property
    def size(self) -> int:
        """Number of recorded configurations."""
        return len(self._codes)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns that encode returns."""
        return self._space.feature_names

    @property
    def member_count(self) -> int:
        """Members of the whole space."""
        return self._space.member_count

    def __contains__(self, config: object) -> bool:
        if config not in self._space:
            return False
        return self._find(self._space.code(cast("C", config))) is not None

    def legal(self, config: C) -> bool:
        """Whether it was recorded."""
        return config in self

    def rejection(self, config: C) -> str | None:
        """Why a configuration is not legal, in one line; None when it is."""
        reason = self._space.rejection(config)
        return reason or (None if config in self else "it was not recorded")

    def sample(self, rng: np.random.Generator, n: int) -> list[C]:
        """At most n distinct recorded configurations."""
        return [self.config(code) for code in self.sample_codes(rng, n).tolist()]

    def mutate(self, config: C, rng: np.random.Generator) -> C:
        """A recorded neighbour."""
        return self.config(int(self.mutate_codes(np.array([self.code(config)]), rng)[0]))

    def encode(self, configs: Sequence[C]) -> np.ndarray:
        """Model features of recorded configurations, float32 [n, len(feature_names)]."""
        codes = np.fromiter((self.code(config) for config in configs), np.int64, len(configs))
        return self.encode_codes(codes)

    def enumerate(self) -> Iterator[C]:
        """All recorded configurations, in the order of their codes."""
        return iter(self._configs)

    def to_dict(self, config: C) -> dict[str, Any]:
        """As the whole space has it."""
        return self._space.to_dict(config)

    def from_dict(self, values: Mapping[str, Any]) -> C:
        """The recorded configuration that to_dict wrote; ConfigError for anything else."""
        config = self._space.from_dict(values)
        self.code(config)
        return config

    def code(self, config: C) -> int:
        """The code of a recorded configuration; ConfigError for another."""
        code = self._space.code(config)
        if self._find(code) is None:
            raise ConfigError(f"{config} was not recorded")
        return code

    def config(self, code: int) -> C:
        """The configuration that a code stands for."""
        return self._configs[self._at(code)]

    def sample_codes(
        self, rng: np.random.Generator, n: int, exclude: Set[int] = frozenset()
    ) -> np.ndarray:
        """At most n distinct recorded codes outside exclude; fewer only when no more exist."""
        gone = np.fromiter(exclude, np.int64, len(exclude))
        left = np.setdiff1d(self._codes, gone) if len(gone) else self._codes
        return rng.permutation(left)[:n]

    def members_of(self, codes: np.ndarray) -> np.ndarray:
        """The member of the whole space that each of codes [n] belongs to: int64 [n]."""
        return self._space.members_of(codes)

    def sample_member(self, member: int, rng: np.random.Generator, n: int) -> np.ndarray:
        """At most n distinct recorded codes of one member."""
        return rng.permutation(self._codes[self._members == member])[:n]

    def mutate_codes(
        self, codes: np.ndarray, rng: np.random.Generator, stay: bool = False
    ) -> np.ndarray:
        """A recorded neighbour of each of recorded codes [n]; without stay rarely any other."""
        at = self._rows(codes)
        starts, counts, flat = self._neighbours
        drawn = (rng.random(len(at)) * counts[at]).astype(np.int64)
        found = np.where(counts[at] > 0, flat[np.minimum(starts[at] + drawn, len(flat) - 1)], at)
        if self.member_count > 1 and not stay:
            switched = np.flatnonzero(rng.random(len(at)) < _SWITCH)
            found[switched] = rng.integers(0, len(self._codes), len(switched))
        return self._codes[found]

    def encode_codes(self, codes: np.ndarray) -> np.ndarray:
        """Model features float32 [n, len(feature_names)] of recorded codes [n]."""
        return self._features[self._rows(codes)]

    def knob_rows(self, codes: np.ndarray) -> np.ndarray:
        """Knob choices int64 [n, knobs] of recorded codes [n], as in the whole space."""
        return self._knobs[self._rows(codes)]

    def _rows(self, codes: np.ndarray) -> np.ndarray:
        return np.searchsorted(self._codes, codes)

    def _at(self, code: int) -> int:
        return int(np.searchsorted(self._codes, code))

    def _find(self, code: int) -> int | None:
        at = self._at(code)
        return at if at < len(self._codes) and int(self._codes[at]) == code else None


def _neighbours(
    knobs: np.ndarray, members: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each row where its neighbours start in a flat list, how many there are, and the list."""
    lists: list[np.ndarray] = []
    for begin in range(0, len(knobs), _ROWS_AT_ONCE):
        block = slice(begin, begin + _ROWS_AT_ONCE)
        distance = np.zeros((len(knobs[block]), len(knobs)), dtype=np.int16)
        for column in knobs.T:
            distance += column[block, None] != column[None, :]
        far = np.int16(knobs.shape[1] + 1)
        distance[members[block, None] != members[None, :]] = far
        distance[np.arange(len(distance)), np.arange(begin, begin + len(distance))] = far
        few = min(_LEAST_NEIGHBOURS, len(knobs)) - 1
        reach = np.partition(distance, few, axis=1)[:, few]
        near = (distance <= reach[:, None]) & (distance < far)
        lists += [np.flatnonzero(row) for row in near]
    counts = np.array([len(one) for one in lists], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    flat = np.concatenate(lists) if counts.sum() else np.zeros(1, dtype=np.int64)
    return starts.astype(np.int64), counts, flat.astype(np.int64)
