"""Product of bytes with a residual sum, of whose rows a layer normalisation is all that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.epilogue import Epilogue
from autoq.templates.field_types import require_positive
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target
from autoq.templates.workload import Arrays, Constants, Tolerance, Workload

NUMBERS = ("variance", "epsilon", "step", "zero_point")


@dataclass(frozen=True)
class NormalisedGemm(Workload, operator="normalised_gemm"):
    """`Gemm(m, n, k)` to uint8, then a layer normalisation of each of its rows to out_dtype.

    Besides the product's constants `factor` and `offset`, float32 [n], the latter in steps of the
    output, and `numbers`, float32 [4]: what the spread of a row (n times the sum of squares less
    the square of the sum) is multiplied by, what is added to that, what the reciprocal of the root
    is multiplied by, and the zero point of the output. Raises InputError for extents below 1 and
    products of other outputs.
    """

    m: int
    n: int
    k: int
    in_dtype: str = "int8"
    weight_dtype: str = "int8"
    epilogue: Epilogue = field(default_factory=Epilogue)
    out_dtype: str = "uint8"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "m", "n", "k")
        if self.epilogue.out_dtype != "uint8" or self.out_dtype not in ("int8", "uint8"):
            raise InputError(f"{self}: sums of uint8 that become bytes")

    @property
    def one(self) -> Gemm:
        """The product alone."""
        return Gemm(self.m, self.n, self.k, self.in_dtype, self.weight_dtype, self.epilogue)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self.one.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", (self.m, self.n), self.out_dtype),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        return (
            *self.one.constants,
            TensorSpec("factor", (self.n,), "float32"),
            TensorSpec("offset", (self.n,), "float32"),
            TensorSpec("numbers", (len(NUMBERS),), "float32"),
        )

    @property
    def operations(self) -> int:
        """Multiplications plus additions."""
        return self.one.operations

    @property
    def bytes(self) -> int:
        return super().bytes + TensorSpec("weight", (self.n, self.k), self.weight_dtype).bytes

    def tolerance(self, target: Target) -> Tolerance:
        """The reciprocal of the root is approximate on a GPU."""
        return Tolerance(steps=1)

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        return self.reference_in_threads(activations, constants, 1)

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        (x,) = self.one.reference_in_threads(activations, constants, threads)
        variance, epsilon, step, zero_point = np.asarray(constants["numbers"], np.float32)
        whole = x.astype(np.int64)
        total = whole.sum(axis=1, keepdims=True)
        spread = (self.n * (whole**2).sum(axis=1, keepdims=True) - total**2).astype(np.float64)
        root = float(step) / np.sqrt(spread * float(variance) + float(epsilon))
        rest = whole - total / self.n
        values = rest * root * np.asarray(constants["factor"]) + np.asarray(constants["offset"])
        limits = np.iinfo(self.out_dtype)
        y = np.clip(np.rint(values) + zero_point, limits.min, limits.max)
        return (y.astype(self.out_dtype),)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        activations, constants = self.one.random_case(rng)
        constants = dict(constants)
        constants["factor"] = rng.uniform(0.2, 1.8, self.n).astype(np.float32)
        constants["offset"] = rng.uniform(-30, 30, self.n).astype(np.float32)
        limits = np.iinfo(self.out_dtype)
        middle = (limits.min + limits.max) // 2 + rng.integers(-8, 8)
        numbers = [1 / self.n**2, 0.01, 40, middle]
        constants["numbers"] = np.asarray(numbers, np.float32)
        return activations, constants

    def __str__(self) -> str:
        return f"{self.one} normalised"
