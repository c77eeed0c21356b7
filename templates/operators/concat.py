"""Concatenation along the channels, each input requantised."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from autoq.templates.epilogue import requantize_numbers
from autoq.templates.oracle.random_arrays import bounds, random_inputs
from autoq.templates.storage import value_dtype
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Arrays, Constants, Workload


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
    def inputs(self) -> tuple[TensorSpec, ...]:
        pairs = zip(self.channels, self.in_dtypes, strict=True)
        return tuple(
            TensorSpec(f"x{index}", (self.outer, channels), dtype)
            for index, (channels, dtype) in enumerate(pairs)
        )

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", self.y_shape, self.out_dtype),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("scalars", (len(self.channels), len(self.SCALARS)), "float32"),)

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        parts = []
        rows = np.asarray(constants["scalars"], np.float32)
        for x, row, requantize in zip(activations, rows, self.requantize, strict=True):
            x = x.reshape(self.outer, -1)
            if requantize:
                x_zero_point, scale, low, high, zero_point = row
                value = (x.astype(np.float32) - x_zero_point) * scale
                x = requantize_numbers(value, low, high, zero_point)
            parts.append(x.astype(value_dtype(self.out_dtype)))
        return (np.concatenate(parts, axis=1),)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        low, high, zero_point = bounds(self.out_dtype, 2)
        rows = [
            [index + 1, 0.6 + 0.1 * index, low, high, zero_point]
            for index in range(len(self.channels))
        ]
        return random_inputs(rng, self.inputs), {"scalars": np.array(rows, np.float32)}

    def retyped(self, inputs: Sequence[str], outputs: Sequence[str]) -> Workload:
        return dataclasses.replace(self, in_dtypes=tuple(inputs), out_dtype=outputs[0])

    def __str__(self) -> str:
        return f"concat {self.outer}x({'+'.join(map(str, self.channels))})"
