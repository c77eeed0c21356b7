"""Maximum and average over windows of images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from autoq.templates.storage import stored_bytes
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class Pool2d(Workload, operator="pool2d"):
    """Maximum or average over windows of `x [n, h, w, c]`; kind is "max" or "average".

    padding is (top, left, bottom, right) and already holds what ceil_mode asks for. A maximum
    ignores pixels outside the image. An average divides by the window's pixels inside the image,
    or by r * s with count_include_pad (outside pixels then count as the zero point).
    Integers: max `v = float(max(x) - x_zero_point) * scale`, average
    `v = float(sum(x - x_zero_point)) * (scale / count)`; `y = clamp(rint(v), low, high) +
    zero_point`. With `requantize` False (max only) `y = max(x)`. Float32: `y = clamp(max or
    sum / count, low, high)`. A window over the whole image is global average pooling.
    """

    kind: str
    n: int
    h: int
    w: int
    c: int
    r: int
    s: int
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    count_include_pad: bool = False
    in_dtype: str = "int8"
    out_dtype: str = "int8"
    requantize: bool = False

    SCALARS: ClassVar = ("x_zero_point", "scale", "low", "high", "zero_point")

    @property
    def p(self) -> int:
        """Output height in pixels."""
        return (self.h + self.padding[0] + self.padding[2] - self.r) // self.stride[0] + 1

    @property
    def q(self) -> int:
        """Output width in pixels."""
        return (self.w + self.padding[1] + self.padding[3] - self.s) // self.stride[1] + 1

    @property
    def x_shape(self) -> tuple[int, int, int, int]:
        return (self.n, self.h, self.w, self.c)

    @property
    def y_shape(self) -> tuple[int, int, int, int]:
        return (self.n, self.p, self.q, self.c)

    @property
    def operations(self) -> int:
        """One operation for each element of each window."""
        return math.prod(self.y_shape) * self.r * self.s

    @property
    def bytes(self) -> int:
        """Bytes through device memory when every operand moves once."""
        read = stored_bytes(self.x_shape, self.in_dtype)
        return read + stored_bytes(self.y_shape, self.out_dtype)

    def __str__(self) -> str:
        return f"N{self.n} {self.kind} {self.r}x{self.s} {self.h}x{self.w}x{self.c}"
