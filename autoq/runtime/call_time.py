"""What a call of a plan takes, and each stage of its kernel."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class CallTime:
    """Median seconds of a call, and of each stage of a kernel that has several, in order."""

    seconds: float
    stages: tuple[float, ...] = ()

    @staticmethod
    def of(samples: Sequence[Sequence[float]]) -> CallTime:
        """The medians of samples, each the seconds of every stage in one run of the call."""
        total = statistics.median(map(sum, samples))
        stages = tuple(statistics.median(times) for times in zip(*samples, strict=True))
        return CallTime(total, stages if len(stages) > 1 else ())
