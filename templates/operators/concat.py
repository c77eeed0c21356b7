"""Concatenation along the channels, each input requantised."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from autoq.templates.storage import stored_bytes
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class Concat(Workload, operator="concat"):
    """Channel concatenation of `[outer, c_i]` matrices (pixels times channels), each requantised.

    in_dtypes and channels run over the inputs; scalars is float32 [inputs, 5] with rows as
    SCALARS: `y = clamp(rint((x - x_zero_point) * scale), low, high) + zero_point`; an input whose
    `requantize` entry is False is copied byte for byte.
    """

    outer: int
    channels: tuple[int, ...]
    in_dtypes: tuple[str, ...]
    requantize: tuple[bool, ...]
    out_dtype: str = "int8"

    SCALARS: ClassVar = ("x_zero_point", "scale", "low", "high", "zero_point")

    @property
    def y_shape(self) -> tuple[int, int]:
        return (self.outer, sum(self.channels))

    @property
    def operations(self) -> int:
        """One operation an element."""
        return math.prod(self.y_shape)

    @property
    def bytes(self) -> int:
        """Bytes through device memory when every operand moves once."""
        pairs = zip(self.channels, self.in_dtypes, strict=True)
        read = sum(stored_bytes((self.outer, c), name) for c, name in pairs)
        return read + stored_bytes(self.y_shape, self.out_dtype)

    def __str__(self) -> str:
        return f"concat {self.outer}x({'+'.join(map(str, self.channels))})"
