"""Maximum and average over windows of images."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.storage import value_dtype
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.borders.filtered_image import FilteredImage
from autoq.templates.epilogue import requantize_numbers
from autoq.templates.field_types import require_positive
from autoq.templates.oracle.random_arrays import bounds, random_inputs
from autoq.templates.workload import Arrays, Constants, Workload


@dataclass(frozen=True)
class Pool2d(FilteredImage, Workload, operator="pool2d"):
    """Maximum or average over windows of `x [n, h, w, c]`; kind is "max" or "average".

    padding is (top, left, bottom, right) and already holds what ceil_mode asks for. A maximum
    ignores pixels outside the image. An average divides by the window's pixels inside the image,
    or by r * s with count_include_pad (outside pixels then count as the zero point).
    Integers: max `v = float(max(x) - x_zero_point) * scale`, average
    `v = float(sum(x - x_zero_point)) * (scale / count)`; `y = clamp(rint(v), low, high) +
    zero_point`. With `requantize` False (max only) `y = max(x)`. Float32: `y = clamp(max or
    sum / count, low, high)`. A window over the whole image is global average pooling.

    Raises InputError for extents below 1 and for windows larger than the padded image.
    """

    kind: Literal["max", "average"]
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

    dilation: ClassVar = (1, 1)
    SCALARS: ClassVar = ("x_zero_point", "scale", "low", "high", "zero_point")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "n", "h", "w", "c", "r", "s", "stride")
        if min(self.p, self.q) < 1:
            raise InputError(f"{self}: the padded image is smaller than the window")

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
    def inputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("x", self.x_shape, self.in_dtype),)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", self.y_shape, self.out_dtype),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("scalars", (len(self.SCALARS),), "float32"),)

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        zero_point, scale, low, high, out_zero_point = np.asarray(constants["scalars"], np.float32)
        top, left, bottom, right = self.padding
        maximum = self.kind == "max"
        integer = self.in_dtype != "float32"
        x = activations[0].astype(np.float64) - (zero_point if integer else 0.0)
        edges = ((0, 0), (top, bottom), (left, right), (0, 0))
        x = np.pad(x, edges, constant_values=-np.inf if maximum else 0.0)
        inside = np.pad(np.ones((1, self.h, self.w, 1)), edges)
        total = np.full(self.y_shape, -np.inf if maximum else 0.0)
        count = np.zeros((1, self.p, self.q, 1))
        for row in range(self.r):
            for column in range(self.s):
                rows = slice(row, row + (self.p - 1) * self.stride[0] + 1, self.stride[0])
                columns = slice(column, column + (self.q - 1) * self.stride[1] + 1, self.stride[1])
                window = x[:, rows, columns]
                total = np.maximum(total, window) if maximum else total + window
                count += inside[:, rows, columns]
        if self.count_include_pad:
            count[:] = self.r * self.s
        value = total.astype(np.float32)
        if not integer:
            value = value if maximum else value / count.astype(np.float32)
            return (np.clip(value, low, high).astype(np.float32),)
        if maximum and not self.requantize:
            return ((value + zero_point).astype(value_dtype(self.out_dtype)),)
        factor = scale if maximum else scale / count.astype(np.float32)
        value = requantize_numbers(value * factor, low, high, out_zero_point)
        return (value.astype(value_dtype(self.out_dtype)),)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        low, high, zero_point = bounds(self.out_dtype, 4)
        x_zero_point = 0 if self.in_dtype == "float32" else 6
        scale = 1.0 if self.in_dtype == "float32" else 0.83
        if self.kind == "average" and self.in_dtype != "float32":
            # A mean of many uniform bytes is nearly constant; the scale spreads it out again.
            scale *= math.sqrt(self.r * self.s)
        scalars = np.array([x_zero_point, scale, low, high, zero_point], np.float32)
        return random_inputs(rng, self.inputs), {"scalars": scalars}

    def retyped(self, inputs: Sequence[str], outputs: Sequence[str]) -> Workload:
        return dataclasses.replace(self, in_dtype=inputs[0], out_dtype=outputs[0])

    def __str__(self) -> str:
        return f"N{self.n} {self.kind} {self.r}x{self.s} {self.h}x{self.w}x{self.c}"
