"""Float32 images to integers, channels last."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from autoq.templates.storage import stored_bytes
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class Quantize(Workload, operator="quantize"):
    """Float32 image `x` to integers `y [n, h / block, w / block, channels]`, NHWC.

    layout of x is "NCHW" or "NHWC". `y[n, i, j, (di * block + dj) * c + ch] =
    clamp(rint(x / scale), low, high) + zero_point` of pixel `(i * block + di, j * block + dj)`:
    block 2 is space-to-depth. Channels past `block * block * c` hold the zero point. The division
    is a true float32 division, as ONNX's QuantizeLinear demands.
    """

    n: int
    h: int
    w: int
    c: int
    channels: int
    block: int = 1
    layout: str = "NCHW"
    out_dtype: str = "int8"

    SCALARS: ClassVar = ("scale", "low", "high", "zero_point")

    @property
    def x_shape(self) -> tuple[int, int, int, int]:
        if self.layout == "NCHW":
            return (self.n, self.c, self.h, self.w)
        return (self.n, self.h, self.w, self.c)

    @property
    def y_shape(self) -> tuple[int, int, int, int]:
        return (self.n, self.h // self.block, self.w // self.block, self.channels)

    @property
    def operations(self) -> int:
        """One operation an output element."""
        return math.prod(self.y_shape)

    @property
    def bytes(self) -> int:
        """Bytes through device memory when every operand moves once."""
        return 4 * math.prod(self.x_shape) + stored_bytes(self.y_shape, self.out_dtype)

    def __str__(self) -> str:
        return f"quantize N{self.n} {self.h}x{self.w}x{self.c}->{self.channels}"
