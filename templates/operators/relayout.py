"""Copies from one layout of activations to another."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.layout import LAYOUTS, NHWCNC, fits, from_nhwc, shape_in, to_nhwc
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.oracle.random_arrays import random_inputs
from autoq.templates.workload import Arrays, Constants, Workload


@dataclass(frozen=True)
class Relayout(Workload, operator="relayout"):
    """Integers `x [n, h, w, c]` from one layout of `arrays/layout.py` to another; takes no scalars.

    Raises InputError for other layouts, and for extents that do not fill the blocks of NHWCnc.
    """

    n: int
    h: int
    w: int
    c: int
    in_layout: str
    out_layout: str
    in_dtype: str = "int8"

    SCALARS: ClassVar = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if {self.in_layout, self.out_layout} != set(LAYOUTS):
            raise InputError(f"{self}: from one of {', '.join(LAYOUTS)} to the other")
        if not fits(self.n, self.c, self.in_dtype):
            raise InputError(f"{self}: {self.in_dtype} does not fill the blocks of {NHWCNC}")

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
    def inputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("x", self.x_shape, self.in_dtype, self.in_layout),)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", self.y_shape, self.in_dtype, self.out_layout),)

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        images = to_nhwc(activations[0], self.in_layout)
        return (from_nhwc(images, self.out_layout, self.in_dtype),)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        return random_inputs(rng, self.inputs), {}

    def retyped(self, inputs: Sequence[str], outputs: Sequence[str]) -> Workload:
        return dataclasses.replace(self, in_dtype=inputs[0])

    def __str__(self) -> str:
        return f"relayout N{self.n} {self.h}x{self.w}x{self.c} {self.in_layout}>{self.out_layout}"
