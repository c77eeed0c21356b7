"""One measured configuration: its time, or the way in which it failed."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Generic, TypeVar

from autoq.errors import InputError

C = TypeVar("C")

FAILURES = ("compile", "runtime", "timeout", "correctness", "constraints")


@dataclass(frozen=True)
class Trial(Generic[C]):
    """A configuration with either seconds or a failure.

    Raises:
        InputError: unless exactly one of the two is set, seconds are finite and positive, and
            the failure is one of FAILURES.
    """

    config: C
    seconds: float | None = None
    failure: str | None = None

    def __post_init__(self) -> None:
        if (self.seconds is None) == (self.failure is None):
            raise InputError(
                f"a trial has seconds or a failure, not {self.seconds!r} and {self.failure!r}"
            )
        if self.seconds is not None and not (isfinite(self.seconds) and self.seconds > 0):
            raise InputError(f"trial seconds must be finite and positive, not {self.seconds!r}")
        if self.failure is not None and self.failure not in FAILURES:
            raise InputError(f"trial failure {self.failure!r} is not one of {FAILURES}")
