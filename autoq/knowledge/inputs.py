"""Features as inputs of a perceptron: on one scale, sizes as logarithms, and nothing missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autoq.knowledge.features import OF_THE_WORKLOAD

# What a perceptron sees of a workload: what it computes, not by which sizes its operator says so.
_SEEN = ("workload.log2", "workload.in_dtype", "workload.weight_dtype", "workload.epilogue")
# A column whose values are positive and differ by more than this factor counts as its logarithm.
_FACTOR = 4.0
_TINY = 1e-9
# So many deviations from the middle an input is at most: little is said beyond what was seen.
_FARTHEST = 4.0


@dataclass(frozen=True)
class Inputs:
    """Which columns of a matrix are inputs, and how.

    at: positions of the columns, int64 [inputs]; logs: whether the binary logarithm counts, and
    flags: whether it counts only that the column has a value, bool [inputs]; middle and spread:
    what is subtracted and divided by, float32 [inputs]. What is missing stands in the middle.
    """

    at: np.ndarray
    logs: np.ndarray
    flags: np.ndarray
    middle: np.ndarray
    spread: np.ndarray

    def of(self, features: np.ndarray) -> np.ndarray:
        """Inputs float32 [n, inputs] of features [n, columns]."""
        found = self._values(features)
        found -= self.middle
        found /= self.spread
        found[np.isnan(found)] = 0
        return np.clip(found, -_FARTHEST, _FARTHEST, out=found)

    def _values(self, features: np.ndarray) -> np.ndarray:
        found = features[:, self.at].astype(np.float32, order="C")
        found[:, self.logs] = np.log2(np.maximum(found[:, self.logs], _TINY))
        found[:, self.flags] = np.isfinite(found[:, self.flags])
        return found

    def varied(self) -> Inputs:
        """Without those that no trial was different in."""
        kept = np.flatnonzero(self.spread > 0)
        return Inputs(*(one[kept] for one in vars(self).values()))


def inputs_of(names: Sequence[str], features: np.ndarray) -> Inputs:
    """The inputs of a perceptron that learns from features [n, columns] under their names.

    A column whose logarithm is another one is none.
    """
    doubled = set(names)
    at, logs, flags = [], [], []
    for i, name in enumerate(names):
        if f"log2({name})" in doubled or _is_a_size(name):
            continue
        known = features[np.isfinite(features[:, i]), i]
        if not len(known):
            continue
        least, most = float(known.min()), float(known.max())
        at.append(i)
        flags.append(least == most)
        logs.append(least > 0 and most > _FACTOR * least and "log2(" not in name)
    width = len(at)
    raw = Inputs(
        np.array(at, np.int64), np.array(logs, bool), np.array(flags, bool),
        np.zeros(width, np.float32), np.ones(width, np.float32),
    )  # fmt: skip
    values = raw._values(features)
    middle, spread = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    return Inputs(raw.at, raw.logs, raw.flags, middle, spread).varied()


def _is_a_size(name: str) -> bool:
    return name.startswith(OF_THE_WORKLOAD) and not name.startswith(_SEEN)
