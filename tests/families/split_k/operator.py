"""`y = max(0, scale * (a weight^T) + bias)` over a long reduction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.oracle.random_arrays import random_array, random_inputs
from autoq.templates.workload import Arrays, Constants, Workload


@dataclass(frozen=True)
class LongProduct(Workload, operator="long_product"):
    """int8 a [m, k] times the constant int8 weight [n, k], float32 y [m, n].

    scale and bias are float32 [n].
    """

    m: int
    n: int
    k: int

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("a", (self.m, self.k), "int8"),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        weight = TensorSpec("weight", (self.n, self.k), "int8")
        return weight, *(TensorSpec(name, (self.n,), "float32") for name in ("scale", "bias"))

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", (self.m, self.n), "float32"),)

    @property
    def operations(self) -> int:
        """Multiplications plus additions."""
        return 2 * self.m * self.n * self.k

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        sums = activations[0].astype(np.int32) @ constants["weight"].astype(np.int32).T
        y = sums.astype(np.float32) * constants["scale"] + constants["bias"]
        return (np.maximum(y, np.float32(0)),)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        return random_inputs(rng, self.inputs), {
            "weight": random_array(rng, (self.n, self.k), "int8"),
            "scale": rng.uniform(1e-5, 1e-4, self.n).astype(np.float32),
            "bias": rng.normal(size=self.n).astype(np.float32),
        }

    def __str__(self) -> str:
        return f"long product {self.m}x{self.n}x{self.k}"
