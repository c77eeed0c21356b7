"""Offsets for buffers that live for a part of the run, so that they share one arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autoq.runtime.plan import ALIGNMENT


@dataclass(frozen=True)
class Lifetime:
    """A buffer of `bytes` that is in use from step `first` to step `last`, both included."""

    bytes: int
    first: int
    last: int


def plan_offsets(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Byte offset of every buffer, and the arena's size.

    Greedy by size (Pisarchyk and Lee 2020, "Efficient memory management for deep neural net
    inference"): large buffers first, each in the lowest gap among those it is alive with.
    """
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    order = sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].bytes, i))
    for index in order:
        item = lifetimes[index]
        size = _aligned(item.bytes)
        rivals = [
            other
            for other in placed
            if lifetimes[other].first <= item.last and item.first <= lifetimes[other].last
        ]
        offset = 0
        for other in sorted(rivals, key=lambda i: offsets[i]):
            if offset + size <= offsets[other]:
                break
            offset = max(offset, offsets[other] + _aligned(lifetimes[other].bytes))
        offsets[index] = offset
        placed.append(index)
    pairs = zip(offsets, lifetimes, strict=True)
    return offsets, max((offset + _aligned(item.bytes) for offset, item in pairs), default=0)


def _aligned(size: int) -> int:
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
