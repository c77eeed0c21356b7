"""The encoded features of a space's configurations, computed once for each code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import numpy as np

from autoq.errors import ConfigError
from autoq.search.batch import Batched
from autoq.search.knobs import Knobs
from autoq.search.lanes import Lanes

C = TypeVar("C")

# Rows that are kept; a table with more begins anew, some 20 MiB in a space of many columns.
_MOST_ROWS = 1 << 16


class FeatureTable(Generic[C]):
    """Features by code: the knobs' columns, then the derived ones.

    Args:
        config_type: dataclass of the configurations.
        knobs: whose columns come first.
        derive: derived features of a configuration; each must return the same keys.
    """

    def __init__(
        self,
        config_type: type[C],
        knobs: Knobs,
        derive: Callable[[C], Mapping[str, float]] | None,
    ) -> None:
        self._knobs = knobs
        self._derive = None if derive is None else Batched(derive, config_type, knobs)
        self._derived: tuple[str, ...] | None = () if derive is None else None
        self._row: dict[int, int] = {}
        self._table = np.empty((0, 0), dtype=np.float32)

    @property
    def alone(self) -> int:
        """Configurations whose features were derived one by one so far."""
        return 0 if self._derive is None else self._derive.alone

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
        if len(self._row) > _MOST_ROWS:
            self._row.clear()
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
            block = np.concatenate([block, self._derived_of(codes)], axis=1)
        used = len(self._row)
        if used + len(block) > len(self._table):
            grown = np.empty((2 * (used + len(block)), block.shape[1]), dtype=np.float32)
            grown[:used] = self._table[:used] if used else grown[:0]
            self._table = grown
        self._table[used : used + len(block)] = block
        self._row.update((code, used + i) for i, code in enumerate(codes.tolist()))

    def _derived_of(self, codes: np.ndarray) -> np.ndarray:
        """Derived features float32 [n, derived ones] of codes [n]."""
        columns = self._knobs.positions(codes)
        parts = self._derive.over(columns, np.arange(len(codes)))
        found = np.empty((len(codes), len(self._checked(parts[0][1]))), np.float32)
        alone = [(part[0], self._checked(one)) for part, one in parts if len(part) == 1]
        if alone:
            at, values = zip(*alone, strict=True)
            found[list(at)] = np.array(values, np.float64)
        for part, features in parts:
            if len(part) > 1:
                for i, value in enumerate(self._checked(features)):
                    found[part, i] = value.values if type(value) is Lanes else float(value)
        found[~np.isfinite(found)] = np.nan
        return found

    def _checked(self, features: Mapping[str, float]) -> list[float]:
        if self._derived is None:
            self._derived = tuple(features)
        if tuple(features) != self._derived:
            odd = sorted(set(features) ^ set(self._derived))
            raise ConfigError(f"derived features differ between configurations in {odd}")
        return list(features.values())
