"""Product of a sparse matrix of vectors, a constant, with a dense one, and what is fused behind."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.element import INTEGER_RANGE
from autoq.templates.epilogue import (
    SCALAR_NAMES,
    Epilogue,
    pack_scalars,
)
from autoq.templates.field_types import require_positive
from autoq.templates.operators.gemm import Gemm
from autoq.templates.oracle.random_arrays import bounds, random_inputs
from autoq.templates.sparse.generation import matrix_of_lengths
from autoq.templates.sparse.vector_matrix import VectorMatrix
from autoq.templates.storage import is_four_bit
from autoq.templates.structure import Structure
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Arrays, Constants, Tolerance, Workload

VECTORS = (2, 4, 8)
"""Rows of a vector."""

_BYTES = ("int8", "uint8")
_EPILOGUE_CONSTANTS = ("bias", "scale", "scalars", "float_bias")
_DEVIATION = 74.0
"""Standard deviation of uniform bytes."""


@dataclass(frozen=True)
class Spmm(Workload, operator="spmm"):
    """Sparse a [m, k] in vectors of `vector` rows times b [k, n], then an epilogue over y [m, n].

    in_dtype: of b, int8 or uint8; weight_dtype: of a's values, int8 or uint8. structure: the class
    of a, by its vectors. Inputs: b, then the residual [m, n] where the epilogue has one.

    The constants are those of `VectorMatrix`: `values` [vectors, vector], `columns` (int32) and
    `pointers` (int32 [vector rows + 1]); `bias` (int32 [m]), `scale` (float32 [m], unused for an
    int32 output), `scalars` (float32 [8], `epilogue.SCALAR_NAMES`), `b_zero_point` (an int) and
    `float_bias` (float32 [m], where the epilogue has one). The epilogue's channels are the rows of
    y: each has its scale and its bias.

    Raises InputError for extents, dtypes and epilogues that are none of these, and for rows so long
    that a sum of values * (b - b_zero_point) may not fit 32 bits.
    """

    m: int
    n: int
    k: int
    vector: int
    structure: Structure
    in_dtype: str = "int8"
    weight_dtype: str = "int8"
    epilogue: Epilogue = field(default_factory=Epilogue)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "m", "n", "k")
        if self.vector not in VECTORS:
            known = ", ".join(map(str, VECTORS))
            raise InputError(f"vectors of {self.vector} rows: choose one of {known}")
        for name in ("in_dtype", "weight_dtype"):
            if getattr(self, name) not in _BYTES:
                raise InputError(f"{name} {getattr(self, name)!r}: one of {', '.join(_BYTES)}")
        epilogue, out = self.epilogue, self.epilogue.out_dtype
        if epilogue.table or epilogue.concatenates or epilogue.row_scale or epilogue.scale_group:
            raise InputError(
                "sparse products end in no table, no concatenation, no row scales and no groups "
                "of scales"
            )
        if is_four_bit(out) or is_four_bit(epilogue.residual_dtype or out):
            raise InputError("sparse products have neither outputs nor residuals of 4 bits")
        if self.longest > self.longest_sum:
            raise InputError(
                f"rows of up to {self.longest} vectors: sums of at most {self.longest_sum} "
                f"products of {self.weight_dtype} and {self.in_dtype} fit 32 bits"
            )

    @property
    def vector_rows(self) -> int:
        """Rows of vectors."""
        return -(-self.m // self.vector)

    @property
    def longest(self) -> int:
        """Most vectors of a vector row."""
        return min(self.structure.longest_row, self.k)

    @property
    def longest_sum(self) -> int:
        """Products whose sum fits 32 bits, whatever they are and whatever the zero point is."""
        most = max(map(abs, INTEGER_RANGE[self.weight_dtype]))
        return ((1 << 31) - 1) // (most * 255)

    @property
    def y_shape(self) -> tuple[int, int]:
        return (self.m, self.n)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        b = TensorSpec("b", (self.k, self.n), self.in_dtype)
        residual = self.epilogue.residual_dtype
        return (b,) if residual is None else (b, TensorSpec("residual", self.y_shape, residual))

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", self.y_shape, self.epilogue.out_dtype),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        blocks, rows = self.structure.blocks, (self.m,)
        specs = [
            TensorSpec("values", (blocks, self.vector), self.weight_dtype, at_most=True),
            TensorSpec("columns", (blocks,), "int32", at_most=True),
            TensorSpec("pointers", (self.vector_rows + 1,), "int32"),
            TensorSpec("bias", rows, "int32"),
            TensorSpec("scale", rows, "float32", optional=self.epilogue.out_dtype == "int32"),
            TensorSpec("scalars", (len(SCALAR_NAMES),), "float32"),
            TensorSpec("b_zero_point", (), "int32", optional=True),
        ]
        if self.epilogue.float_bias:
            specs.append(TensorSpec("float_bias", rows, "float32"))
        return tuple(specs)

    @property
    def operations(self) -> int:
        """Multiplications plus additions, of the vectors that there are."""
        return 2 * self.structure.blocks * self.vector * self.n

    @property
    def bytes(self) -> int:
        return super().bytes + sum(spec.bytes for spec in self.constants[:3])

    def tolerance(self, target: Target) -> Tolerance:
        """On the CPU integers with a fused residual may be one step off, as of other products."""
        fused = target.kind == "cpu" and self.epilogue.residual_dtype is not None
        return Tolerance(steps=1 if fused and self.epilogue.out_dtype != "int32" else 0)

    def retyped(self, inputs: Sequence[str], outputs: Sequence[str]) -> Workload:
        residual = inputs[1] if self.epilogue.residual_dtype else None
        epilogue = dataclasses.replace(self.epilogue, out_dtype=outputs[0], residual_dtype=residual)
        return dataclasses.replace(self, in_dtype=inputs[0], epilogue=epilogue)

    def matrix(self, constants: Constants) -> VectorMatrix:
        """The sparse matrix; raises InputError where the arrays are none."""
        arrays = (np.asarray(constants[name]) for name in ("pointers", "columns", "values"))
        return VectorMatrix(self.m, self.k, self.vector, *arrays)

    def check_constants(self, constants: Constants) -> None:
        super().check_constants(constants)
        found = Structure.of(self.matrix(constants).lengths)
        if found.blocks > self.structure.blocks or found.longest_row > self.structure.longest_row:
            raise InputError(f"{self}: the matrix is of {found}, not of {self.structure}")
        for name in ("scale", "float_bias"):
            if name in constants and not np.isfinite(constants[name]).all():
                raise InputError(f"{self}: {name} has NaN or infinite values")

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        return self.reference_in_threads(activations, constants, 1)

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        product = Gemm(self.n, self.m, self.k, self.in_dtype, self.weight_dtype, self.epilogue)
        weight = self.matrix(constants).to_dense()
        own = {name: value for name, value in constants.items() if name in _EPILOGUE_CONSTANTS}
        own |= {"weight": weight, "x_zero_point": constants.get("b_zero_point", 0)}
        turned = [np.ascontiguousarray(array.T) for array in activations]
        (y,) = product.reference_in_threads(turned, own, threads)
        return (np.ascontiguousarray(y.T),)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        epilogue = self.epilogue
        lengths = self.structure.random_lengths(rng, self.vector_rows, self.k)
        shape = (self.m, self.k)
        matrix = matrix_of_lengths(rng, shape, self.vector, lengths, self.weight_dtype)
        spread = _DEVIATION**2 * math.sqrt(max(1, self.structure.mean_row))
        step = 1 if epilogue.activation == "none" else 1 / 32
        low, high, zero_point = bounds(
            epilogue.out_dtype, -7 if epilogue.out_dtype == "int8" else 7
        )
        constants = {
            "values": matrix.values,
            "columns": matrix.indices,
            "pointers": matrix.pointers,
            "bias": rng.integers(-int(spread), int(spread) + 1, self.m, np.int32),
            "scale": (rng.uniform(40, 90, self.m) * step / spread).astype(np.float32),
            "scalars": pack_scalars(
                accumulator_low=-125, accumulator_high=122, accumulator_scale=0.613739,
                residual_scale=0.429281,
                residual_zero_point=-9.0 if epilogue.residual_dtype == "int8" else 9.0,
                low=low, high=high, zero_point=zero_point,
            ),
            "b_zero_point": 119 if self.in_dtype == "uint8" else -11,
        }  # fmt: skip
        if epilogue.float_bias:
            constants["float_bias"] = rng.uniform(-40 * step, 40 * step, self.m).astype(np.float32)
        return random_inputs(rng, self.inputs), constants

    def __str__(self) -> str:
        share = 1 - self.structure.blocks / (self.vector_rows * self.k)
        return f"spmm {self.m}x{self.n}x{self.k} v{self.vector} {max(0.0, share):.3f} sparse"
