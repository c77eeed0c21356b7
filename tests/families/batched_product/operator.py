"""`y[i] = a[i] b[i]^T`, as between the queries and the keys of an attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.oracle.random_arrays import random_inputs
from autoq.templates.oracle.threads import in_threads
from autoq.templates.workload import Arrays, Constants, Workload


@dataclass(frozen=True)
class BatchedProduct(Workload, operator="batched_product"):
    """int8 a [batch, m, k] and b [batch, n, k] to int32 y [batch, m, n]; there are no constants."""

    batch: int
    m: int
    n: int
    k: int

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        a = TensorSpec("a", (self.batch, self.m, self.k), "int8")
        return a, TensorSpec("b", (self.batch, self.n, self.k), "int8")

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", (self.batch, self.m, self.n), "int32"),)

    @property
    def operations(self) -> int:
        """Multiplications plus additions."""
        return 2 * self.batch * self.m * self.n * self.k

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        return self.reference_in_threads(activations, constants, 1)

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        a, b = (array.astype(np.int32) for array in activations)
        y = np.empty((self.batch, self.m, self.n), np.int32)
        in_threads(lambda i: np.matmul(a[i], b[i].T, out=y[i]), range(self.batch), threads)
        return (y,)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        return random_inputs(rng, self.inputs), {}

    def __str__(self) -> str:
        return f"batched {self.batch}x{self.m}x{self.n}x{self.k}"
