"""Product of a sparse matrix of vectors, a constant, with a dense one, and what is fused behind."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.epilogue import (
    SCALAR_NAMES,
    Epilogue,
    FloatTerms,
    apply_epilogue,
    pack_scalars,
)
from autoq.templates.field_types import require_positive, require_vector
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.product import require_uniform
from autoq.templates.operators.spmm_dtypes import (
    FLOATS,
    ZERO_POINTS,
    deviation,
    require_factors,
    require_floats,
    value_range,
)
from autoq.templates.oracle.float_sums import lost_share
from autoq.templates.oracle.random_arrays import bounds, random_inputs
from autoq.templates.sparse.generation import matrix_of_lengths
from autoq.templates.sparse.structure import Structure
from autoq.templates.sparse.vector_matrix import VectorMatrix
from autoq.templates.target import Target
from autoq.templates.workload import Arrays, Constants, Tolerance, Workload

SHORT_VECTORS = (2, 4, 8)
"""Rows of a vector that kernels of 8 rows take; all others take those of longer ones by parts."""

VECTORS = (*SHORT_VECTORS, 16, 32, 64, 128)
"""Rows of a vector."""

_MOST_SUM = (1 << 31) - 1
_EPILOGUE_CONSTANTS = ("bias", "scale", "scalars", "float_bias")


@dataclass(frozen=True)
class Spmm(Workload, operator="spmm"):
    """Sparse a [m, k] in vectors of `vector` rows times b [k, n], then an epilogue over y [m, n].

    in_dtype: of b, weight_dtype: of a's values, integers of 4, 8 or 16 bits, or one 16-bit float
    type. structure: the class of a, by its vectors. Inputs: b, then the residual [m, n] where the
    epilogue has one.

    The constants are those of `VectorMatrix`: `values` [vectors, vector], `columns` (int32) and
    `pointers` (int32 [vector rows + 1]); `bias` (int32 [m]), `scale` (float32 [m], unused for an
    int32 output), `scalars` (float32 [8], `epilogue.SCALAR_NAMES`), `b_zero_point` (an int) and
    `float_bias` (float32 [m], where the epilogue has one). The epilogue's channels are the rows of
    y: each has its scale and its bias.

    Sums of values * (b - b_zero_point) are exact: those of 16 bits have 64, unless y is int32. Of
    floats sums and bias are float32, there is no zero point, and y has floats: where b is infinite
    or NaN any element of its column may be NaN. Raises InputError for extents, dtypes and epilogues
    that are none of these, and for rows so long that a sum may not fit.
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
        require_vector(self.vector, VECTORS)
        epilogue, out = self.epilogue, self.epilogue.out_dtype
        require_factors(self.in_dtype, self.weight_dtype)
        if self.floating:
            require_floats(out, epilogue.residual_dtype or out)
        if epilogue.table or epilogue.concatenates or epilogue.row_scale or epilogue.scale_group:
            raise InputError(
                "sparse products end in no table, no concatenation, no row scales and no groups "
                "of scales"
            )
        if is_four_bit(out) or is_four_bit(epilogue.residual_dtype or out):
            raise InputError("sparse products have neither outputs nor residuals of 4 bits")
        if not self.floating and self.longest > self.longest_sum:
            raise InputError(
                f"rows of up to {self.longest} vectors: sums of at most {self.longest_sum} "
                f"products of {self.weight_dtype} and {self.in_dtype} fit"
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
    def short(self) -> Spmm:
        """The same product in vectors of at most 8 rows: a class of each matrix's shorter vectors.

        Its constants are of `to_vectors(workload.matrix(constants), workload.short.vector)`.
        """
        most = SHORT_VECTORS[-1]
        if self.vector <= most:
            return self
        of = self.structure
        parts = Structure(of.blocks * (self.vector // most), of.mean_row, of.longest_row)
        return dataclasses.replace(self, vector=most, structure=parts)

    @property
    def floating(self) -> bool:
        """Whether the factors are floats."""
        return self.in_dtype in FLOATS

    @property
    def wide(self) -> bool:
        """Whether sums have 64 bits, each of their digits' sums 32."""
        sixteen = {self.in_dtype, self.weight_dtype} & {"int16", "uint16"}
        return bool(sixteen) and self.epilogue.out_dtype != "int32"

    @property
    def longest_sum(self) -> int:
        """Products whose sum fits, whatever they are and whatever the zero point is."""
        if self.wide:  # two products of digits may share a sum
            return _MOST_SUM // (2 * 255 * 255)
        (low, high), (least, most) = (
            value_range(one) for one in (self.weight_dtype, self.in_dtype)
        )
        return _MOST_SUM // (max(-low, high) * (most - least))

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
            TensorSpec("bias", rows, "float32" if self.floating else "int32"),
            TensorSpec("scale", rows, "float32", optional=self.epilogue.out_dtype == "int32"),
            TensorSpec("scalars", (len(SCALAR_NAMES),), "float32"),
        ]
        if not self.floating:
            specs.append(TensorSpec("b_zero_point", (), "int32", optional=True))
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
        """On the CPU integers with a fused residual may be one step off, as of other products.

        Of floats sums may differ, by a share of what their row of y is in the mean, and what they
        are rounded to.
        """
        if self.floating:
            unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(self.epilogue.out_dtype, 0.0)
            return Tolerance(relative=max(lost_share(self.longest), 2 * unit), rows=True)
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
        low, high = value_range(self.weight_dtype)
        if self.epilogue.uniform:
            known = {**constants, "x_zero_point": constants.get("b_zero_point", 0)}
            require_uniform(self.epilogue.out_dtype, known, str(self))
        values = np.asarray(constants["values"])
        if values.min(initial=0) < low or values.max(initial=0) > high:
            raise InputError(
                f"{self}: values lie outside {low} to {high}, those of {self.weight_dtype}"
            )
        for name in ("scale", "float_bias", *(("values", "bias") if self.floating else ())):
            if name in constants and not np.isfinite(constants[name]).all():
                raise InputError(f"{self}: {name} has NaN or infinite values")

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        return self.reference_in_threads(activations, constants, 1)

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        if self.floating or {self.in_dtype, self.weight_dtype} & {"int16", "uint16"}:
            return (self._from_wide_sums(activations, constants),)
        product = Gemm(self.n, self.m, self.k, self.in_dtype, self.weight_dtype, self.epilogue)
        weight = self.matrix(constants).to_dense()
        own = {name: value for name, value in constants.items() if name in _EPILOGUE_CONSTANTS}
        own |= {"weight": weight, "x_zero_point": constants.get("b_zero_point", 0)}
        turned = [np.ascontiguousarray(array.T) for array in activations]
        (y,) = product.reference_in_threads(turned, own, threads)
        return (np.ascontiguousarray(y.T),)

    def _from_wide_sums(
        self, activations: Sequence[np.ndarray], constants: Constants
    ) -> np.ndarray:
        """The output of values or activations of 16 bits: float64 holds sums of integers."""
        b = activations[0].astype(np.float64) - int(constants.get("b_zero_point", 0))
        sums = self.matrix(constants).to_dense().astype(np.float64) @ b
        kind = np.float32 if self.floating else np.int64
        residual = activations[1].T if len(activations) > 1 else None
        y = apply_epilogue(
            self.epilogue, sums.T.astype(kind), np.asarray(constants["bias"]),
            constants.get("scale"), np.asarray(constants["scalars"]), residual,
            terms=FloatTerms(None, constants.get("float_bias")),
        )  # fmt: skip
        return np.ascontiguousarray(y.T)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        epilogue = self.epilogue
        lengths = self.structure.random_lengths(rng, self.vector_rows, self.k)
        shape = (self.m, self.k)
        matrix = matrix_of_lengths(rng, shape, self.vector, lengths, self.weight_dtype)
        spread = deviation(self.in_dtype) * deviation(self.weight_dtype)
        spread *= math.sqrt(max(1, self.structure.mean_row))
        most_bias = min(int(spread), 1 << 28)
        step = 1 if epilogue.activation == "none" else 1 / 32
        shift = 0 if epilogue.uniform else -7 if epilogue.out_dtype == "int8" else 7
        low, high, zero_point = bounds(epilogue.out_dtype, shift)
        constants = {
            "values": matrix.values,
            "columns": matrix.indices,
            "pointers": matrix.pointers,
            "bias": self._random_bias(rng, most_bias),
            "scale": (rng.uniform(40, 90, self.m) * step / spread).astype(np.float32),
            "scalars": pack_scalars(
                accumulator_low=-125, accumulator_high=122, accumulator_scale=0.613739,
                residual_scale=0.429281,
                residual_zero_point=-9.0 if epilogue.residual_dtype == "int8" else 9.0,
                low=low, high=high, zero_point=zero_point,
            ),
        }  # fmt: skip
        if not self.floating:
            constants["b_zero_point"] = ZERO_POINTS[self.in_dtype]
        if epilogue.uniform:
            constants["scale"][:], constants["bias"][:] = constants["scale"][0], 0
            constants["b_zero_point"] = 0
        if epilogue.float_bias:
            constants["float_bias"] = rng.uniform(-40 * step, 40 * step, self.m).astype(np.float32)
        return random_inputs(rng, self.inputs), constants

    def _random_bias(self, rng: np.random.Generator, most: int) -> np.ndarray:
        if self.floating:
            return rng.uniform(-most, most, self.m).astype(np.float32)
        return rng.integers(-most, most + 1, self.m, np.int32)

    def __str__(self) -> str:
        share = 1 - self.structure.blocks / (self.vector_rows * self.k)
        of = f" {self.in_dtype}" if self.floating else ""
        return f"spmm {self.m}x{self.n}x{self.k} v{self.vector} {max(0.0, share):.3f} sparse{of}"
