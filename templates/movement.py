"""Workloads whose time is memory traffic: pooling, addition, concatenation and format changes.

Every one takes its quantisation as a float32 `scalars` operand whose order is its SCALARS; all
arithmetic is single precision, `rint` is round-half-even. Activations are NHWC.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from autoq.templates.layout import LAYOUTS, NHWCNC, fits, shape_in
from autoq.templates.storage import stored_bytes

ITEM_BYTES = {"int8": 1, "uint8": 1, "int32": 4, "float32": 4}


@dataclass(frozen=True)
class Pool2d:
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


@dataclass(frozen=True)
class Add:
    """`y = clamp(rint((a - a_zero_point) * a_scale + (b - b_zero_point) * b_scale), low, high) +
    zero_point` over equal shapes; a_scale and b_scale are already divided by the output's scale.

    Float32: `y = clamp(a + b, low, high)`.
    """

    shape: tuple[int, ...]
    a_dtype: str = "int8"
    b_dtype: str = "int8"
    out_dtype: str = "int8"

    SCALARS: ClassVar = (
        "a_zero_point",
        "a_scale",
        "b_zero_point",
        "b_scale",
        "low",
        "high",
        "zero_point",
    )

    @property
    def y_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def operations(self) -> int:
        """One addition an element."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes through device memory when every operand moves once."""
        dtypes = (self.a_dtype, self.b_dtype, self.out_dtype)
        return sum(stored_bytes(self.shape, name) for name in dtypes)

    def __str__(self) -> str:
        return "add " + "x".join(map(str, self.shape))


@dataclass(frozen=True)
class Concat:
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


@dataclass(frozen=True)
class Quantize:
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


@dataclass(frozen=True)
class Dequantize:
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


@dataclass(frozen=True)
class Relayout:
    """Integers `x [n, h, w, c]` from one layout of `layout.py` to another; takes no scalars."""

    n: int
    h: int
    w: int
    c: int
    in_layout: str
    out_layout: str
    in_dtype: str = "int8"

    SCALARS: ClassVar = ()

    def __post_init__(self) -> None:
        if {self.in_layout, self.out_layout} != set(LAYOUTS):
            raise ValueError(f"{self}: from one of {', '.join(LAYOUTS)} to the other")
        if not fits(self.n, self.c, self.in_dtype):
            raise ValueError(f"{self}: {self.in_dtype} does not fill the blocks of {NHWCNC}")

    @property
    def x_shape(self) -> tuple[int, ...]:
        return shape_in((self.n, self.h, self.w, self.c), self.in_layout, self.in_dtype)

    @property
    def y_shape(self) -> tuple[int, ...]:
        return shape_in((self.n, self.h, self.w, self.c), self.out_layout, self.in_dtype)

    @property
    def operations(self) -> int:
        """One operation an element."""
        return math.prod(self.x_shape)

    @property
    def bytes(self) -> int:
        """Bytes through device memory when every operand moves once."""
        return 2 * stored_bytes(self.x_shape, self.in_dtype)

    def __str__(self) -> str:
        return f"relayout N{self.n} {self.h}x{self.w}x{self.c} {self.in_layout}>{self.out_layout}"
