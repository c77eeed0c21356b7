"""What constant folding of one model may cost, in bytes, operations and seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np


class BudgetError(ValueError):
    """A constant costs more than folding may; its text says how much, and what to do."""


@dataclass
class FoldingBudget:
    """Bytes of computed constants, their arithmetic operations, and seconds since the first one.

    Sizes are charged before anything is allocated; `clock` is asked before each computation.
    """

    bytes: float = 2.0**30
    operations: float = 2.0**34
    seconds: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _started: float | None = field(default=None, init=False)

    @classmethod
    def for_constants(cls, arrays: Iterable[np.ndarray]) -> FoldingBudget:
        """The budget of a model with these constants: large models may compute large ones."""
        return cls(bytes=cls.bytes + 4.0 * sum(array.nbytes for array in arrays))

    def charge(self, size_bytes: float, operations: float) -> None:
        """Take a computation off the budget; raises BudgetError where that is not left."""
        now = self.clock()
        self._started = now if self._started is None else self._started
        if now - self._started > self.seconds:
            raise BudgetError(
                f"constants took more than {self.seconds:.0f} s to compute; "
                "store their values as initializers"
            )
        for amount, left, unit in (
            (size_bytes, self.bytes, "bytes"), (operations, self.operations, "operations"),
        ):  # fmt: skip
            if not amount <= left:
                raise BudgetError(
                    f"a constant that takes {amount:.4g} {unit} to compute, {left:.4g} are left "
                    "for this model; store its value as an initializer"
                )
        self.bytes -= size_bytes
        self.operations -= operations
