"""A rule over arrays: its verdicts by the values of the few knobs that it reads.

A rule is a plain function of one configuration. Which knobs it reads is seen by running it on
configurations that note their reads; its verdict then holds for every configuration with the same
values of these, since whatever else it could have read it has not. Where a verdict is known a
lookup is all it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autoq.search.batch import Batched, Columns
from autoq.search.knobs import Knobs
from autoq.search.lanes import Lanes
from autoq.search.traced import Reads

# Entries of a table, a byte each, of which only those that are used take memory. A rule that reads
# more is judged for each distinct choice of its knobs, call by call.
_MOST_ENTRIES = 1 << 24
_UNKNOWN, _BROKEN, _HOLDS = 0, 1, 2


class RuleTable:
    """What a rule says of codes.

    Args:
        rule: true for a legal configuration; it depends on nothing but the configuration.
        config_type: dataclass of the configurations.
        knobs: of the codes.
    """

    def __init__(self, rule: Callable[[Any], bool], config_type: type[Any], knobs: Knobs) -> None:
        self._batched = Batched(rule, config_type, knobs)
        self._dims: list[int] = knobs.dims.tolist()
        self._read: list[int] = []
        self._strides: list[int] = []
        self._table: np.ndarray | None = np.zeros(1, np.uint8)

    @property
    def alone(self) -> int:
        """Configurations that the rule was asked about one by one so far."""
        return self._batched.alone

    @property
    def reads(self) -> set[int]:
        """Positions of the knobs that the rule has read so far."""
        return set(self._read)

    def mask(self, columns: Columns, rows: np.ndarray) -> np.ndarray:
        """Whether the rule holds for some rows [n]: bool [n].

        columns: for each knob the positions of the chosen values in its list, int64 [all rows].
        """
        while True:
            at = self._places(columns, rows)
            if self._table is None:
                places, first, back = np.unique(at, return_index=True, return_inverse=True)
            else:
                found = self._table[at]
                missing = np.flatnonzero(found == _UNKNOWN)
                if not len(missing):
                    return np.asarray(found == _HOLDS)
                places, first = np.unique(at[missing], return_index=True)
                first = missing[first]
            verdicts, reads = self._judged(columns, rows[first])
            if not reads.issubset(self._read):
                self._extend(reads)  # and judge anew, which happens a few times in all
            elif self._table is None:
                return np.asarray(verdicts[back] == _HOLDS)
            else:
                self._table[places] = verdicts

    def _places(self, columns: Columns, rows: np.ndarray) -> np.ndarray:
        """Entries of the table int64 [n] that rows [n] belong to."""
        at = np.zeros(len(rows), np.int64)
        for knob, stride in zip(self._read, self._strides, strict=True):
            at += columns[knob][rows] * stride
        return at

    def _judged(self, columns: Columns, rows: np.ndarray) -> tuple[np.ndarray, Reads]:
        """Verdicts uint8 [n] of rows [n], and the knobs that were read."""
        reads = Reads()
        verdicts = np.empty(len(rows), np.uint8)
        for part, found in self._batched.over(columns, rows, reads):
            holds = found.values.astype(bool) if type(found) is Lanes else bool(found)
            verdicts[part] = np.where(holds, _HOLDS, _BROKEN)
        return verdicts, reads

    def _extend(self, reads: Reads) -> None:
        """Tell verdicts apart by more knobs; those known so far are forgotten."""
        self._read = sorted({*self._read, *reads})
        entries = 1
        self._strides = []
        for knob in reversed(self._read):
            self._strides.insert(0, entries)
            entries *= self._dims[knob]
        self._table = np.zeros(entries, np.uint8) if entries <= _MOST_ENTRIES else None
