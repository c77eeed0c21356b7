"""Float32 images to integers, channels last."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from autoq.templates.arrays.storage import value_dtype
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.epilogue import requantize_numbers
from autoq.templates.oracle.random_arrays import bounds, random_inputs
from autoq.templates.workload import Arrays, Constants, Workload


@dataclass(frozen=True)
class Quantize(Workload, operator="quantize"):
    """Float32 image `x` to integers `y [n, h / block, w / block, channels]`, NHWC.

    layout of x is "NCHW" or "NHWC". `y[n, i, j, (di * block + dj) * c + ch] =
    clamp(rint(x / scale), low, high) + zero_point` of pixel `(i * block + di, j * block + dj)`:
    block 2 is space-to-depth. With `planes` each channel's pixels of a block lie together instead,
    `y[n, i, j, (ch * block + di) * block + dj]`. Channels past `block * block * c` hold the zero
    point. The division is a true float32 division, as ONNX's QuantizeLinear demands.
    """

    converts = True

    n: int
    h: int
    w: int
    c: int
    channels: int
    block: int = 1
    layout: str = "NCHW"
    out_dtype: str = "int8"
    planes: bool = False

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
    def inputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("x", self.x_shape, "float32"),)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", self.y_shape, self.out_dtype),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("scalars", (len(self.SCALARS),), "float32"),)

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        scale, low, high, zero_point = np.asarray(constants["scalars"], np.float32)
        x = activations[0]
        if self.layout == "NCHW":
            x = x.transpose(0, 2, 3, 1)
        values = requantize_numbers(x / scale, low, high, zero_point).astype(
            value_dtype(self.out_dtype)
        )
        n, h, w, _ = self.y_shape
        block = self.block
        blocks = values.reshape(n, h, block, w, block, self.c)
        blocks = blocks.transpose(0, 1, 3, 5, 2, 4) if self.planes else blocks.swapaxes(2, 3)
        y = np.full(self.y_shape, zero_point, value_dtype(self.out_dtype))
        y[..., : block * block * self.c] = blocks.reshape(n, h, w, -1)
        return (y,)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        low, high, zero_point = bounds(self.out_dtype, 3)
        scalars = np.array([0.02, low, high, zero_point], np.float32)
        return random_inputs(rng, self.inputs), {"scalars": scalars}

    def retyped(self, inputs: Sequence[str], outputs: Sequence[str]) -> Workload:
        return dataclasses.replace(self, out_dtype=outputs[0])

    def __str__(self) -> str:
        return f"quantize N{self.n} {self.h}x{self.w}x{self.c}->{self.channels}"
