"""`y[i, j] = x[i, n - 1 - j]`, and below it rows of a constant, of any whole-byte element type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.oracle.random_arrays import random_inputs
from autoq.templates.workload import Arrays, Constants, Workload


@dataclass(frozen=True)
class ReversedRows(Workload, operator="reversed_rows"):
    """x [rows, n] to y [2 * rows, n], of one dtype; each of the last rows is the constant [n]."""

    rows: int
    n: int
    dtype: str

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("x", (self.rows, self.n), self.dtype),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("added", (self.n,), self.dtype),)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", (2 * self.rows, self.n), self.dtype),)

    @property
    def operations(self) -> int:
        return math.prod(self.outputs[0].shape)

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        (x,) = activations
        added = np.broadcast_to(constants["added"], x.shape)
        return (np.concatenate([x[:, ::-1], added]),)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        (added,) = random_inputs(rng, self.constants)
        return random_inputs(rng, self.inputs), {"added": added}

    def __str__(self) -> str:
        return f"reversed rows {self.rows}x{self.n} of {self.dtype}"
