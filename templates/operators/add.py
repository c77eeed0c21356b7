"""Addition of two quantised or float32 arrays."""

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
class Add(Workload, operator="add"):
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
    def inputs(self) -> tuple[TensorSpec, ...]:
        return (
            TensorSpec("a", self.shape, self.a_dtype),
            TensorSpec("b", self.shape, self.b_dtype),
        )

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", self.shape, self.out_dtype),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("scalars", (len(self.SCALARS),), "float32"),)

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        a, b = (array.astype(np.float32) for array in activations)
        scalars = np.asarray(constants["scalars"], np.float32)
        a_zero_point, a_scale, b_zero_point, b_scale, low, high, zero_point = scalars
        if self.out_dtype == "float32":
            return (np.clip(a + b, low, high),)
        value = (a - a_zero_point) * a_scale + (b - b_zero_point) * b_scale
        value = requantize_numbers(value, low, high, zero_point)
        return (value.astype(value_dtype(self.out_dtype)),)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        low, high, zero_point = bounds(self.out_dtype, 5)
        scalars = np.array([3, 0.71, 8, 0.52, low, high, zero_point], np.float32)
        return random_inputs(rng, self.inputs), {"scalars": scalars}

    def retyped(self, inputs: Sequence[str], outputs: Sequence[str]) -> Workload:
        return dataclasses.replace(self, a_dtype=inputs[0], b_dtype=inputs[1], out_dtype=outputs[0])

    def __str__(self) -> str:
        return "add " + "x".join(map(str, self.shape))
