"""Products of float32 matrices through integers, with a compensation for what quantising loses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.field_types import require_positive
from autoq.templates.operators.gemm import Gemm
from autoq.templates.oracle.residual_quantisation import (
    compensated,
    cuts,
    integer_product,
    kept,
    largest_integer,
    quantise,
)
from autoq.templates.target import Target
from autoq.templates.workload import Arrays, Constants, Tolerance, Workload


@dataclass(frozen=True)
class ResidualGemm(Workload, operator="residual_gemm"):
    """Matrix product `a [m, k]` with b, float32 to float32 `y [m, n]`, through 4 or 8 bits.

    b_order: "kn" or "nk", how b lies in memory. constant_b: b is a constant, not an input.
    bias: float32 [n], a constant, is added to the result.

    Rows of a and columns of b are quantised, P is the product of what they become, and Q what
    `correction` adds for their residuals (`oracle/residual_quantisation.py`):

    - "none": nothing; y is the direct product.
    - "full": the product of quantised a with the residual of b, and the other way round.
    - "sparse": of quantised a only values above their row's cut, of b above their column's, which
      follow from the constant `threshold` (float32 [1]: 0 keeps everything, infinity nothing). A
      side of which a share larger than the constant `crossover` (float32 [1]) is kept, of all its
      m * k or k * n values, takes part as a whole, as in "full".

    y is within one rounding of float32 of the numpy reference, whose integers are exact. Inputs are
    finite; k is at most `LONGEST`. Raises InputError for extents, bits and options that are none of
    these.
    """

    m: int
    n: int
    k: int
    bits: int = 8
    correction: Literal["none", "sparse", "full"] = "sparse"
    b_order: Literal["kn", "nk"] = "kn"
    constant_b: bool = False
    bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "m", "n", "k")
        if self.bits not in (4, 8):
            raise InputError(f"{self.bits} bits: choose 4 or 8")
        longest = longest_sum(self.bits)
        if self.k > longest:
            raise InputError(f"k = {self.k}: two sums of at most {longest} products fit 32 bits")

    @property
    def a(self) -> TensorSpec:
        return TensorSpec("a", (self.m, self.k), "float32")

    @property
    def b(self) -> TensorSpec:
        shape = (self.k, self.n) if self.b_order == "kn" else (self.n, self.k)
        return TensorSpec("b", shape, "float32")

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return (self.a,) if self.constant_b else (self.a, self.b)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", (self.m, self.n), "float32"),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        specs = [self.b] if self.constant_b else []
        if self.bias:
            specs.append(TensorSpec("bias", (self.n,), "float32"))
        if self.correction == "sparse":
            specs += [TensorSpec(name, (1,), "float32") for name in ("threshold", "crossover")]
        return tuple(specs)

    @property
    def operations(self) -> int:
        """Multiplications plus additions of the product that is asked for, without corrections."""
        return 2 * self.m * self.n * self.k

    @property
    def operations_by_dtype(self) -> dict[str, int]:
        return {"int8": self.operations * (3 if self.correction == "full" else 1)}

    @property
    def bytes(self) -> int:
        return super().bytes + (self.b.bytes if self.constant_b else 0)

    @property
    def product(self) -> Gemm:
        """The product of the integers, to int32; b is its weight, [n, k]."""
        return Gemm(self.m, self.n, self.k, epilogue=Epilogue("int32"))

    @property
    def direct(self) -> Gemm:
        """The product of the integers with the scales of rows and columns behind it, in float32."""
        epilogue = Epilogue("float32", row_scale=True, float_bias=self.bias)
        return Gemm(self.m, self.n, self.k, epilogue=epilogue)

    @property
    def direct_scalars(self) -> np.ndarray:
        """What `direct` takes as its scalars: no bounds."""
        return pack_scalars()

    def check_constants(self, constants: Constants) -> None:
        super().check_constants(constants)
        for name in ("threshold", "crossover"):
            if name in constants and not float(np.asarray(constants[name])[0]) >= 0:
                raise InputError(f"{self}: {name} {float(constants[name][0])}: 0 or more")
        for name in ("b", "bias"):
            if name in constants and not np.isfinite(constants[name]).all():
                raise InputError(f"{self}: {name} has NaN or infinite values")

    def tolerance(self, target: Target) -> Tolerance:
        """Integers are exact, and what is left are three roundings of float32, the same ones."""
        return Tolerance(relative=1e-6)

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        return self.reference_in_threads(activations, constants, 1)

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        given = dict(zip((spec.name for spec in self.inputs), activations, strict=True))
        b = np.asarray(given.get("b", constants.get("b")))
        b = b if self.b_order == "kn" else b.T
        left, right = quantise(given["a"], self.bits, axis=1), quantise(b, self.bits, axis=0)

        def product(one: np.ndarray, other: np.ndarray) -> np.ndarray:
            pieces = np.array_split(one, threads)
            with ThreadPoolExecutor(threads) as pool:
                found = pool.map(lambda rows: integer_product(rows, other, self.bits), pieces)
                return np.concatenate(list(found))

        sums, correction = product(left.values, right.values), None
        if self.correction != "none":
            a, b = left.values, right.values
            if self.correction == "sparse":
                a, b = self.chosen(sums, left.scale, right.scale, a, b, constants)
            correction = product(a, right.residual) + product(left.residual, b)
        y = compensated(sums, correction, left.scale, right.scale, self.bits)
        return (y + np.asarray(constants["bias"]) if self.bias else y,)

    def chosen(
        self,
        sums: np.ndarray,
        rows: np.ndarray,
        columns: np.ndarray,
        a: np.ndarray,
        b: np.ndarray,
        constants: Constants,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of quantised a and b what takes part in the correction."""
        threshold, crossover = (float(constants[name][0]) for name in ("threshold", "crossover"))
        of_a = np.abs(a.astype(np.int32)).sum(axis=1)
        of_b = np.abs(b.astype(np.int32)).sum(axis=0)
        some_a = kept(a, cuts(sums, columns[0], of_b, threshold)[:, None])
        some_b = kept(b, cuts(sums.T, rows[:, 0], of_a, threshold)[None, :])
        return tuple(
            some if np.count_nonzero(some) <= crossover * some.size else whole
            for some, whole in ((some_a, a), (some_b, b))
        )

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        """Matrices of which a thousandth matters, or a twentieth of small ones.

        Values are between 0.3 and 0.6 of a step's sign, and those that matter above 0.95. Signs go
        by k, the same ones on both sides, so that sums do not cancel.
        """
        signs = rng.choice(np.array([-1, 1], np.float32), self.k)

        def values(shape: tuple[int, ...], along: np.ndarray) -> np.ndarray:
            share = 1 / 1000 if math.prod(shape) >= 1 << 20 else 1 / 20
            matters = rng.random(shape, np.float32) < share
            small = rng.random(shape, np.float32)
            return np.where(matters, 0.95 + 0.05 * small, 0.3 + 0.3 * small) * along

        a = values(self.a.shape, signs).astype(np.float32)
        along = signs[:, None] if self.b_order == "kn" else signs
        b = values(self.b.shape, along).astype(np.float32)
        constants: dict[str, Any] = {"b": b} if self.constant_b else {}
        if self.bias:
            constants["bias"] = rng.standard_normal(self.n, np.float32)
        if self.correction == "sparse":
            constants["threshold"] = np.array([0.8], np.float32)
            constants["crossover"] = np.array([1 / 8], np.float32)
        return ((a,) if self.constant_b else (a, b)), constants

    def __str__(self) -> str:
        form = {"none": " direct", "sparse": "", "full": " full"}[self.correction]
        order = "" if self.b_order == "kn" else " nk"
        return f"{self.m}x{self.n}x{self.k} of {self.bits} bits{form}{order}"


def longest_sum(bits: int) -> int:
    """The largest k of which all sums of P and Q fit 32 bits."""
    return (2**31 - 1) // (2 * largest_integer(bits) ** 2)
