"""What products of one activation have in common, whatever the numbers that they multiply."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.target import Target
from autoq.templates.workload import Arrays, Constants, Tolerance, Workload

MOST_PRODUCTS = 3
"""As many as a transformer's queries, keys and values."""


class SharedProducts(Workload):
    """`products` times one product of the same x `[m, k]`, with outputs `[m, n]` each.

    The constants are those of one with a first axis of so many, but for numbers that all share.
    """

    batch_sizes: ClassVar[int] = 2

    products: int
    m: int
    n: int
    k: int
    weight_dtype: str

    @property
    @abstractmethod
    def one(self) -> Workload:
        """Each of the products."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self.one.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        (y,) = self.one.outputs
        return tuple(TensorSpec(f"y{i}", y.shape, y.dtype) for i in range(self.products))

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        return tuple(
            TensorSpec(spec.name, (self.products, *spec.shape), spec.dtype, optional=spec.optional)
            if spec.shape
            else spec
            for spec in self.one.constants
        )

    @property
    def operations(self) -> int:
        """Multiplications plus additions."""
        return self.products * self.one.operations

    @property
    def bytes(self) -> int:
        weight = TensorSpec("weight", (self.products, self.n, self.k), self.weight_dtype)
        return super().bytes + weight.bytes

    def constants_of_each(self, constants: Constants) -> Iterator[dict[str, Any]]:
        """The constants of every product."""
        alike = {spec.name for spec in self.one.constants if not spec.shape}
        for i in range(self.products):
            yield {
                name: array if name in alike else np.asarray(array)[i]
                for name, array in constants.items()
            }

    def tolerance(self, target: Target) -> Tolerance:
        """That of a product."""
        return self.one.tolerance(target)

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        return self.reference_in_threads(activations, constants, 1)

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        return tuple(
            self.one.reference_in_threads(activations, of_one, threads)[0]
            for of_one in self.constants_of_each(constants)
        )

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        cases = [self.one.random_case(rng) for _ in range(self.products)]
        activations, first = cases[0]
        alike = {spec.name for spec in self.one.constants if not spec.shape}
        constants = {
            name: first[name]
            if name in alike
            else np.stack([np.asarray(of_one[name]) for _, of_one in cases])
            for name in first
        }
        return activations, constants

    def __str__(self) -> str:
        return f"{self.products} of {self.one}"
