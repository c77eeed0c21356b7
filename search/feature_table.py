"""The encoded features of a space's configurations, computed once for each code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import numpy as np

from autoq.errors import ConfigError
from autoq.search.knobs import Knobs

C = TypeVar("C")


class FeatureTable(Generic[C]):
    """Features by code: the knobs' columns, then the derived ones.

    Args:
        knobs: whose columns come first.
        config: builds the configuration of a code.
        derive: derived features of a configuration; each must return the same keys.
    """

    def __init__(
        self,
        knobs: Knobs,
        config: Callable[[int], C],
        derive: Callable[[C], Mapping[str, float]] | None,
    ) -> None:
        self._knobs = knobs
        self._config = config
        self._derive = derive
        self._derived: tuple[str, ...] | None = () if derive is None else None
        self._row: dict[int, int] = {}
        self._table = np.empty((0, 0), dtype=np.float32)

    @property
    def complete(self) -> bool:
        """Whether the names of the derived features are known yet."""
        return self._derived is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Column names; without the derived ones until a first configuration was encoded."""
        return self._knobs.columns + (self._derived or ())

    def rows(self, codes: np.ndarray) -> np.ndarray:
        """Features float32 [n, columns] of codes [n]; not-finite values are NaN (missing).

        Raises:
            ConfigError: when derived features do not have the same keys for every code.
        """
        listed = codes.tolist()
        row = self._row
        try:
            at = [row[code] for code in listed]
        except KeyError:
            self._add(np.array([c for c in dict.fromkeys(listed) if c not in row], dtype=np.int64))
            at = [row[code] for code in listed]
        return self._table[at] if at else np.empty((0, len(self.names)), dtype=np.float32)

    def _add(self, codes: np.ndarray) -> None:
        block = self._knobs.encode(codes)
        if self._derive is not None:
            configs = [self._config(code) for code in codes.tolist()]
            derived = np.array([self._checked(self._derive(c)) for c in configs], np.float32)
            derived[~np.isfinite(derived)] = np.nan
            block = np.concatenate([block, derived], axis=1)
        used = len(self._row)
        if used + len(block) > len(self._table):
            grown = np.empty((2 * (used + len(block)), block.shape[1]), dtype=np.float32)
            grown[:used] = self._table[:used] if used else grown[:0]
            self._table = grown
        self._table[used : used + len(block)] = block
        self._row.update((code, used + i) for i, code in enumerate(codes.tolist()))

    def _checked(self, features: Mapping[str, float]) -> list[float]:
        if self._derived is None:
            self._derived = tuple(features)
        if tuple(features) != self._derived:
            odd = sorted(set(features) ^ set(self._derived))
            raise ConfigError(f"derived features differ between configurations in {odd}")
        return [float(value) for value in features.values()]
