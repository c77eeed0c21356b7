"""What the kernel of a fusion writes: its result, and what else it makes of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True, eq=False)
class Picked:
    """Places along the last axis of a fusion's result, int [count], which it writes once more.

    output: the name of what it writes, `[..., count]`.
    """

    output: str
    places: np.ndarray


class _Typed(Protocol):
    @property
    def dtype(self) -> str: ...


class Results:
    """The arrays that a fusion writes, and those that its kernel takes in front of them.

    The result, `output`, is the last primitive's. quantised names what is written besides it, if
    anything: the result as `DynamicQuantize` gives it. picked is a part of it that is written, too.
    """

    primitives: Sequence[_Typed]
    constants: tuple[np.ndarray, ...]
    output: str
    output_shape: tuple[int, ...]
    quantised: tuple[str, ...]
    picked: Picked | None

    @property
    def outputs(self) -> tuple[str, ...]:
        """All tensors that it writes."""
        return (self.output, *self.quantised, *((self.picked.output,) if self.picked else ()))

    @property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of its result, of what that is quantised to, and of what is picked of it."""
        shape = self.output_shape
        picked = ((*shape[:-1], len(self.picked.places)),) if self.picked else ()
        return (shape, *((shape, (1,), (1,)) if self.quantised else ()), *picked)

    @property
    def output_dtypes(self) -> tuple[str, ...]:
        """Dtypes of the same."""
        own = self.primitives[-1].dtype
        more = ("uint8", "float32", "float32") if self.quantised else ()
        return (own, *more, *((own,) if self.picked else ()))

    @property
    def kernel_constants(self) -> tuple[np.ndarray, ...]:
        """What its kernel takes between inputs and outputs: constants, and the places it picks."""
        picked = (self.picked.places.astype(np.uint16),) if self.picked else ()
        return (*self.constants, *picked)
