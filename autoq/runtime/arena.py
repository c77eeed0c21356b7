"""Offsets for buffers that live for a part of the run, so that they share one arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autoq.runtime.plan import ALIGNMENT


@dataclass(frozen=True)
class Lifetime:
    """A buffer of `bytes` that is in use from call `first` to call `last`, both included."""

    bytes: int
    first: int
    last: int


def plan_offsets(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Byte offset of every buffer, and the arena's size.

    Greedy by size (Pisarchyk and Lee 2020, "Efficient memory management for deep neural net
    inference"): large buffers first, each in the lowest gap among those it is alive with.
    """
    sizes = np.array([_aligned(item.bytes) for item in lifetimes], np.int64)
    first = np.array([item.first for item in lifetimes], np.int64)
    last = np.array([item.last for item in lifetimes], np.int64)
    order = np.argsort(-np.array([item.bytes for item in lifetimes], np.int64), kind="stable")
    offsets = np.zeros(len(lifetimes), np.int64)
    for count, index in enumerate(order):
        placed = order[:count]
        rivals = placed[(first[placed] <= last[index]) & (first[index] <= last[placed])]
        offsets[index] = _lowest_gap(offsets[rivals], sizes[rivals], sizes[index])
    return offsets.tolist(), int((offsets + sizes).max(initial=0))


def _lowest_gap(starts: np.ndarray, sizes: np.ndarray, size: np.int64) -> np.int64:
    """The lowest offset where `size` bytes fit between buffers, which may overlap each other."""
    order = np.argsort(starts)
    starts = starts[order]
    free = np.maximum.accumulate(np.append(0, starts + sizes[order]))  # behind those before
    fits = free[:-1] + size <= starts
    return free[:-1][fits][0] if fits.any() else free[-1]


def _aligned(size: int) -> int:
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
