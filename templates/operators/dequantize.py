"""Integers to float32."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from autoq.templates.storage import stored_bytes
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class Dequantize(Workload, operator="dequantize"):
    """Integers `x [n, h, w, c]` to float32 `y = (x - zero_point) * scale`, NCHW or NHWC."""

    n: int
    h: int
    w: int
    c: int
    layout: str = "NCHW"
    in_dtype: str = "int8"

    SCALARS: ClassVar = ("zero_point", "scale")

    @property
    def x_shape(self) -> tuple[int, int, int, int]:
        return (self.n, self.h, self.w, self.c)

    @property
    def y_shape(self) -> tuple[int, int, int, int]:
        if self.layout == "NCHW":
            return (self.n, self.c, self.h, self.w)
        return (self.n, self.h, self.w, self.c)

    @property
    def operations(self) -> int:
        """One operation an element."""
        return math.prod(self.x_shape)

    @property
    def bytes(self) -> int:
        """Bytes through device memory when every operand moves once."""
        return stored_bytes(self.x_shape, self.in_dtype) + 4 * math.prod(self.y_shape)

    def __str__(self) -> str:
        return f"dequantize N{self.n} {self.h}x{self.w}x{self.c}"
