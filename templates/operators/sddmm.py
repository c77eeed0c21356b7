"""Sampled product: the elements of a product of two dense matrices that a sparse mask names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.field_types import require_positive, require_vector
from autoq.templates.operators.spmm import SHORT_VECTORS
from autoq.templates.oracle.float_sums import lost_share
from autoq.templates.oracle.random_arrays import random_inputs
from autoq.templates.sparse.generation import matrix_of_lengths
from autoq.templates.sparse.strided import to_strided
from autoq.templates.sparse.structure import Structure
from autoq.templates.sparse.vector_matrix import VectorMatrix
from autoq.templates.target import Target
from autoq.templates.workload import Arrays, Constants, Tolerance, Workload

STRIDES = (8, 16, 32, 64)
"""Vectors of a stride of SR-BCRS."""

_INTEGERS = ("int4", "uint4", "int8", "uint8", "int16", "uint16")
_FLOATS = ("float16", "bfloat16")
_OUTPUTS = ("int32", "float16", "bfloat16", "float32")
_MOST_SUM = (1 << 31) - 1


@dataclass(frozen=True)
class Sddmm(Workload, operator="sddmm"):
    """Elements of `a b^T`, of a [m, k] and b [n, k], in the vectors of a sparse matrix [m, n].

    a_dtype and b_dtype: integers of 4, 8 or 16 bits, both of as many, or one 16-bit float type.
    b holds the right factor by columns, as keys of an attention lie. structure: the class of the
    mask, by its vectors of `vector` rows of one column each.

    The output has room for every mask of the class, and what it has no vectors for is 0. Without a
    stride it is BCRS, [vectors, vector]; else SR-BCRS, [strides, vector, stride], each vector row
    from a stride of its own on, as `StridedMatrix` has it. Rows below the last of a are 0.

    The constants are `columns` (int32 [vectors]), `pointers` (int32 [vector rows + 1]) and, unless
    the output is int32, `row_scale` (float32 [m]) and `column_scale` (float32 [n]). Each element is
    `float32(sum) * row_scale * column_scale`, in this order, of an exact sum of integers, which of
    16 bits has 64 unless the output is int32; sums of floats are float32.

    Raises InputError for extents and dtypes that are none of these, and where a sum may not fit.
    """

    m: int
    n: int
    k: int
    vector: int
    structure: Structure
    a_dtype: str = "int8"
    b_dtype: str = "int8"
    out_dtype: str = "int32"
    stride: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "m", "n", "k")
        require_vector(self.vector, SHORT_VECTORS)
        if self.stride not in (0, *STRIDES):
            known = ", ".join(map(str, STRIDES))
            raise InputError(f"a stride of {self.stride}: choose 0, for BCRS, or one of {known}")
        kinds = (self.a_dtype, self.b_dtype)
        alike = set(kinds) <= set(_INTEGERS) and len({element(kind).bits for kind in kinds}) == 1
        if not alike and not (kinds[0] == kinds[1] and kinds[0] in _FLOATS):
            raise InputError(
                f"sampled products of {kinds[0]} and {kinds[1]}: choose integers of 4, 8 or 16 "
                "bits, both of as many, or float16 or bfloat16 for both"
            )
        if self.out_dtype not in _OUTPUTS or (self.floating and self.out_dtype == "int32"):
            raise InputError(f"out_dtype {self.out_dtype!r} of {kinds[0]}: choose "
                             f"{', '.join(_OUTPUTS[self.floating:])}")  # fmt: skip
        if is_four_bit(self.a_dtype) and self.k % 2:
            raise InputError(f"k = {self.k} values of 4 bits: rows are of whole bytes")
        if not self.floating and self.k > self.longest_sum:
            raise InputError(
                f"k = {self.k}: sums of at most {self.longest_sum} products of {self.a_dtype} and "
                f"{self.b_dtype} fit{'' if self.wide else ' int32'}"
            )

    @property
    def floating(self) -> bool:
        """Whether the factors are floats."""
        return self.a_dtype in _FLOATS

    @property
    def wide(self) -> bool:
        """Whether sums have 64 bits, each of their digits' sums 32."""
        return self.a_dtype in ("int16", "uint16") and self.out_dtype != "int32"

    @property
    def longest_sum(self) -> int:
        """Products of integers whose sum fits, whatever they are."""
        if self.wide:  # two products of digits may share a sum
            return _MOST_SUM // (2 * 255 * 255)
        largest = [max(-low, high) for low, high in map(_range, (self.a_dtype, self.b_dtype))]
        return _MOST_SUM // (largest[0] * largest[1])

    @property
    def vector_rows(self) -> int:
        """Rows of vectors."""
        return -(-self.m // self.vector)

    @property
    def longest(self) -> int:
        """Most vectors of a vector row."""
        return min(self.structure.longest_row, self.n)

    @property
    def places(self) -> int:
        """Vectors that the output has room for, one at least, whole strides where it has such."""
        blocks, rows, stride = self.structure.blocks, self.vector_rows, self.stride or 1
        strides = min(rows * -(-self.longest // stride), (blocks + (stride - 1) * rows) // stride)
        return max(1, strides) * stride

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        a = TensorSpec("a", (self.m, self.k), self.a_dtype)
        return (a, TensorSpec("b", (self.n, self.k), self.b_dtype))

    @property
    def y_shape(self) -> tuple[int, ...]:
        if self.stride:
            return (self.places // self.stride, self.vector, self.stride)
        return (self.places, self.vector)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", self.y_shape, self.out_dtype),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        specs = [
            TensorSpec("columns", (self.structure.blocks,), "int32", at_most=True),
            TensorSpec("pointers", (self.vector_rows + 1,), "int32"),
        ]
        if self.out_dtype != "int32":
            specs.append(TensorSpec("row_scale", (self.m,), "float32"))
            specs.append(TensorSpec("column_scale", (self.n,), "float32"))
        return tuple(specs)

    @property
    def operations(self) -> int:
        """Multiplications plus additions, of the vectors that there are."""
        return 2 * self.structure.blocks * self.vector * self.k

    @property
    def bytes(self) -> int:
        return super().bytes + sum(spec.bytes for spec in self.constants[:2])

    def tolerance(self, target: Target) -> Tolerance:
        """Integers are equal; of floats, sums and what they are rounded to may differ."""
        unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(self.out_dtype, 0.0)
        return Tolerance(relative=max(lost_share(self.k), 2 * unit))

    def mask(self, constants: Constants) -> VectorMatrix:
        """The sparse matrix, of zeros; raises InputError where the arrays are none."""
        pointers, columns = (np.asarray(constants[name]) for name in ("pointers", "columns"))
        values = np.zeros((len(columns), self.vector), np.int8)
        return VectorMatrix(self.m, self.n, self.vector, pointers, columns, values)

    def places_of(self, mask: VectorMatrix) -> tuple[np.ndarray, np.ndarray]:
        """Where the places of each vector row start, [vector rows + 1], and end, [vector rows]."""
        stride = self.stride or 1
        starts = np.concatenate([[0], np.cumsum(-(-mask.lengths // stride) * stride)])
        return starts, starts[:-1] + mask.lengths

    def check_constants(self, constants: Constants) -> None:
        super().check_constants(constants)
        found = Structure.of(self.mask(constants).lengths)
        if found.blocks > self.structure.blocks or found.longest_row > self.structure.longest_row:
            raise InputError(f"{self}: the mask is of {found}, not of {self.structure}")
        for name in ("row_scale", "column_scale"):
            if name in constants and not np.isfinite(constants[name]).all():
                raise InputError(f"{self}: {name} has NaN or infinite values")

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        mask = self.mask(constants)
        kind = np.float32 if self.floating else np.float64
        a, b = (array.astype(kind) for array in activations)
        rows = np.zeros((mask.vector_rows * self.vector, self.k), kind)
        rows[: self.m] = a
        # Float64 holds sums of products of 16 bits exactly, as far as they are allowed to be long.
        whole = (rows @ b.T).reshape(mask.vector_rows, self.vector, self.n)
        sums = whole[mask.vector_row_of, :, mask.indices]
        if self.out_dtype == "int32":
            values = sums.astype(np.int32)
        else:
            row_scale = np.zeros(mask.vector_rows * self.vector, np.float32)
            row_scale[: self.m] = constants["row_scale"]
            scaled = (
                sums.astype(np.float32) * row_scale.reshape(-1, self.vector)[mask.vector_row_of]
            )
            scaled *= np.asarray(constants["column_scale"])[mask.indices][:, None]
            values = scaled.astype(element(self.out_dtype).dtype)
        (y,) = self.outputs
        result = np.zeros(y.shape, y.element.dtype)
        matrix = VectorMatrix(self.m, self.n, self.vector, mask.pointers, mask.indices, values)
        own = to_strided(matrix, self.stride).values if self.stride else values
        result[: len(own)] = own
        return (result,)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        lengths = self.structure.random_lengths(rng, self.vector_rows, self.n)
        mask = matrix_of_lengths(rng, (self.m, self.n), self.vector, lengths)
        constants: dict[str, Any] = {"columns": mask.indices, "pointers": mask.pointers}
        if self.out_dtype != "int32":
            spread = math.sqrt(self.k) * math.prod(map(_spread, (self.a_dtype, self.b_dtype)))
            constants["row_scale"] = rng.uniform(0.5, 2, self.m).astype(np.float32)
            column_scale = rng.uniform(0.5, 2, self.n) / spread
            constants["column_scale"] = column_scale.astype(np.float32)
        return random_inputs(rng, self.inputs), constants

    def __str__(self) -> str:
        share = 1 - self.structure.blocks / (self.vector_rows * self.n)
        kind = f"sr-bcrs {self.stride}" if self.stride else "bcrs"
        dtypes = ",".join(dict.fromkeys((self.a_dtype, self.b_dtype, self.out_dtype)))
        return (
            f"sddmm {self.m}x{self.n}x{self.k} v{self.vector} {max(0.0, share):.3f} sparse "
            f"{kind} {dtypes}"
        )


def _range(dtype: str) -> tuple[int, int]:
    """Least and most of an integer."""
    found = element(dtype).range
    assert found is not None
    return found


def _spread(dtype: str) -> float:
    """Root mean square of random values."""
    if dtype in _FLOATS:
        return 1.0
    low, high = _range(dtype)
    return math.sqrt((low * low + high * high + low * high) / 3)
