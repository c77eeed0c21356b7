"""Floats to unsigned bytes by the range that they turn out to have (ONNX DynamicQuantizeLinear)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.field_types import require_positive
from autoq.templates.oracle.random_arrays import random_inputs
from autoq.templates.workload import Arrays, Constants, Workload

LEVELS = 255.0
"""Steps between the least and the largest value."""
LARGE = 1e38
"""A scale times this is below 1 where it is nearly none: ranges of some 1e-38 and less."""
OF_RESULT = ("y_scale", "y_zero_point")
"""Further outputs of other operators that quantise their y so."""


@dataclass(frozen=True)
class DynamicQuantize(Workload, operator="dynamic_quantize"):
    """`y = clamp(rint(x / scale) + zero_point, 0, 255)` of float32 x `[size]`, uint8 `[size]`.

    scale float32 `[1]` is a 255th of the distance between the least and the largest value, 0 among
    them, and zero_point float32 `[1]` the whole number that stands for 0. Values that are all 0
    have a scale of 1, and a range below some 1e-38 has one near it. NaNs are passed over.

    Raises InputError for a size below 1.
    """

    converts = True
    quantises_by_range = True

    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "size")

    @property
    def operations(self) -> int:
        """Two comparisons and a quotient an element."""
        return 3 * self.size

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("x", (self.size,), "float32"),)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (
            TensorSpec("y", (self.size,), "uint8"),
            TensorSpec("scale", (1,), "float32"),
            TensorSpec("zero_point", (1,), "float32"),
        )

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        return ()

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        x = np.asarray(activations[0], np.float32)
        one, zero = np.float32(1), np.float32(0)
        most = np.fmax(np.fmax.reduce(x), zero)
        least = np.fmin(np.fmin.reduce(x), zero)
        scale = (most - least) / np.float32(LEVELS)
        with np.errstate(over="ignore"):
            some = min(scale * np.float32(LARGE), one)
        scale = scale + (one - some)
        zero_point = np.rint(np.clip(-(least / scale), zero, np.float32(LEVELS)))
        y = np.clip(np.rint(x / scale) + zero_point, zero, np.float32(LEVELS)).astype(np.uint8)
        return y, np.float32([scale]), np.float32([zero_point])

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        return random_inputs(rng, self.inputs), {}

    def __str__(self) -> str:
        return f"dynamic quantisation of {self.size}"
