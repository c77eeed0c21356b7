"""Product of two matrices whose rows, requantised, are normalised and quantised again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.element import INTEGER_RANGE
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.reference import requantize_numbers
from autoq.templates.field_types import require_positive
from autoq.templates.operators.gemm import Gemm
from autoq.templates.oracle.random_arrays import bounds
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Arrays, Constants, Tolerance, Workload

NORM_NUMBERS = ("epsilon", "in_steps", "low", "high", "zero_point")
"""Numbers of a normalisation, float32 [5]: epsilon over the square of the input's step, one over
the output's step, and the output's bounds, less its zero point, and that."""

_BYTES = ("int8", "uint8")


@dataclass(frozen=True)
class NormalisedGemm(Workload, operator="normalised_gemm"):
    """`Gemm(m, n, k)` to bytes `u` whose rows are normalised: a layer normalisation of integers.

    With `mean` and `variance` those of a row of the integers u, `v = (u - mean) / sqrt(variance +
    epsilon) * in_steps * norm_factor + norm_offset` and `y = clamp(rint(v), low, high) +
    zero_point`, bytes of `out_dtype`. The inputs are those of the product. The constants are its
    own and `norm_factor` and `norm_offset`, float32 [n], the latter in steps of the output, and
    `norm_numbers` float32 [5], `NORM_NUMBERS`.

    Raises InputError for extents below 1, outputs that are no bytes and products of floats.
    """

    m: int
    n: int
    k: int
    in_dtype: str = "int8"
    weight_dtype: str = "int8"
    epilogue: Epilogue = field(default_factory=Epilogue)
    out_dtype: str = "int8"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "m", "n", "k")
        if not {self.out_dtype, self.epilogue.out_dtype} <= {*_BYTES} or self.epilogue.by_range:
            raise InputError(f"{self}: bytes are normalised, to bytes")
        if self.in_dtype == "float32":
            raise InputError(f"{self}: products of integers are normalised as integers")

    @property
    def product(self) -> Gemm:
        """What is normalised."""
        return Gemm(self.m, self.n, self.k, self.in_dtype, self.weight_dtype, self.epilogue)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self.product.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", (self.m, self.n), self.out_dtype),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        return (
            *self.product.constants,
            TensorSpec("norm_factor", (self.n,), "float32"),
            TensorSpec("norm_offset", (self.n,), "float32"),
            TensorSpec("norm_numbers", (len(NORM_NUMBERS),), "float32"),
        )

    @property
    def dynamic(self) -> bool:
        return self.epilogue.dynamic

    @property
    def operations(self) -> int:
        """Multiplications plus additions of the product."""
        return self.product.operations

    @property
    def bytes(self) -> int:
        weight = TensorSpec("weight", (self.n, self.k), self.weight_dtype)
        return super().bytes + weight.bytes

    def tolerance(self, target: Target) -> Tolerance:
        """A root is approximate, so that an integer beside a tie may be its neighbour."""
        return Tolerance(steps=1)

    def retyped(self, inputs: Sequence[str], outputs: Sequence[str]) -> Workload:
        product = self.product.retyped(inputs, [self.epilogue.out_dtype])
        if not isinstance(product, Gemm):
            raise ValueError(f"{self} has no form from {', '.join(inputs)}")
        return normalised(product, outputs[0])

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        return self.reference_in_threads(activations, constants, 1)

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        of_product = {spec.name for spec in self.product.constants}
        own = {name: array for name, array in constants.items() if name in of_product}
        (u,) = self.product.reference_in_threads(activations, own, threads)
        numbers = np.asarray(constants["norm_numbers"], np.float32)
        epsilon, in_steps, low, high, zero_point = map(float, numbers)
        wide = u.astype(np.int64)
        total = wide.sum(axis=1, keepdims=True)
        spread = self.n * (wide * wide).sum(axis=1, keepdims=True) - total * total
        root = np.float32(in_steps / np.sqrt(spread / self.n**2 + epsilon))
        rest = u.astype(np.float32) - (total / self.n).astype(np.float32)
        value = rest * root * np.asarray(constants["norm_factor"], np.float32)
        value += np.asarray(constants["norm_offset"], np.float32)
        y = requantize_numbers(value, low, high, zero_point)
        return (y.astype(self.out_dtype),)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        activations, constants = self.product.random_case(rng)
        least = INTEGER_RANGE[self.out_dtype][0]
        low, high, zero_point = bounds(self.out_dtype, 7 if least == 0 else -7)
        return activations, {
            **constants,
            "norm_factor": rng.uniform(-1.2, 1.2, self.n).astype(np.float32),
            "norm_offset": rng.uniform(-9, 9, self.n).astype(np.float32),
            "norm_numbers": np.array([0.37, 31.3, low, high, zero_point], np.float32),
        }

    def __str__(self) -> str:
        return f"{self.product} normalised"


def normalised(product: Gemm, out_dtype: str) -> NormalisedGemm:
    """A product of integers to bytes whose rows are normalised to bytes of `out_dtype`."""
    return NormalisedGemm(
        product.m, product.n, product.k, product.in_dtype, product.weight_dtype,
        product.epilogue, out_dtype,
    )  # fmt: skip


def normalising(product: Workload, out_dtype: str) -> NormalisedGemm | None:
    """The same where a workload is such a product, of which no zeros are known; None elsewhere."""
    if not isinstance(product, Gemm) or product.sparsity is not None:
        return None
    epilogue = product.epilogue
    plain = {epilogue.out_dtype, out_dtype} <= {*_BYTES} and not epilogue.by_range
    return normalised(product, out_dtype) if plain and product.in_dtype != "float32" else None
