"""Integers to float32."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.oracle.random_arrays import random_inputs
from autoq.templates.workload import Arrays, Constants, Workload


@dataclass(frozen=True)
class Dequantize(Workload, operator="dequantize"):
    """Integers `x [n, h, w, c]` to float32 `y = (x - zero_point) * scale`, NCHW or NHWC."""

    converts = True

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
    def inputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("x", self.x_shape, self.in_dtype),)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", self.y_shape, "float32"),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("scalars", (len(self.SCALARS),), "float32"),)

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        zero_point, scale = np.asarray(constants["scalars"], np.float32)
        y = (activations[0].astype(np.float32) - zero_point) * scale
        return (np.ascontiguousarray(y.transpose(0, 3, 1, 2) if self.layout == "NCHW" else y),)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        zero_point = 5 if self.in_dtype.startswith("u") else -5
        scalars = np.array([zero_point, 0.031], np.float32)
        return random_inputs(rng, self.inputs), {"scalars": scalars}

    def retyped(self, inputs: Sequence[str], outputs: Sequence[str]) -> Workload:
        return dataclasses.replace(self, in_dtype=inputs[0])

    def __str__(self) -> str:
        return f"dequantize N{self.n} {self.h}x{self.w}x{self.c}"
