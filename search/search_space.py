"""The interface that strategies search through, whatever lies behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Protocol, TypeVar

import numpy as np

C = TypeVar("C")

ESTIMATE = "seconds_estimate"
"""The derived feature that is a template's own guess of the time, right up to a factor."""


class SearchSpace(Protocol[C]):
    """A finite set of legal configurations.

    Each configuration has a *code*, one int64; strategies that handle thousands of
    configurations work on arrays of codes and build configurations only for what they return.
    """

    @property
    def size(self) -> int:
        """Number of combinations of knob values, legal or not."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns that encode returns."""
        ...

    def legal(self, config: C) -> bool: ...

    def rejection(self, config: C) -> str | None: ...

    def sample(self, rng: np.random.Generator, n: int) -> list[C]: ...

    def mutate(self, config: C, rng: np.random.Generator) -> C: ...

    def encode(self, configs: Sequence[C]) -> np.ndarray: ...

    def enumerate(self) -> Iterator[C]: ...

    def from_dict(self, values: Mapping[str, Any]) -> C: ...

    def to_dict(self, config: C) -> dict[str, Any]: ...

    def __contains__(self, config: object) -> bool: ...

    def code(self, config: C) -> int:
        """The code of a legal configuration; ConfigError names the broken rule of another."""
        ...

    def config(self, code: int) -> C:
        """The configuration that a code stands for."""
        ...

    def sample_codes(
        self, rng: np.random.Generator, n: int, exclude: Set[int] = frozenset()
    ) -> np.ndarray:
        """At most n distinct legal codes outside exclude; fewer only when no more exist."""
        ...

    @property
    def member_count(self) -> int:
        """Spaces that are united here; 1 for one by itself."""
        ...

    def members_of(self, codes: np.ndarray) -> np.ndarray:
        """Which of these each of codes [n] belongs to: int64 [n]."""
        ...

    def sample_member(self, member: int, rng: np.random.Generator, n: int) -> np.ndarray:
        """At most n distinct legal codes of one member; fewer only when no more exist."""
        ...

    def mutate_codes(
        self, codes: np.ndarray, rng: np.random.Generator, stay: bool = False
    ) -> np.ndarray:
        """One legal mutant code for each of legal codes [n]; stay: always of the same member."""
        ...

    def encode_codes(self, codes: np.ndarray) -> np.ndarray:
        """Model features float32 [n, len(feature_names)] of legal codes [n]."""
        ...

    def knob_rows(self, codes: np.ndarray) -> np.ndarray:
        """Knob choices int64 [n, knobs] of codes [n]; -1 for a knob a configuration lacks."""
        ...
