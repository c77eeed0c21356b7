"""`autoq.sddmm`: the elements of a product of dense matrices that a sparse mask names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.products.masks import mask_vectors
from autoq.products.numbers_by_row import numbers_by_row
from autoq.products.option_fields import options_of
from autoq.products.placed_options import PlacedOptions
from autoq.runtime.dlpack import ARRAYS, tensor_of
from autoq.single_operator import CompiledOperator
from autoq.templates.operators.sddmm import Sddmm
from autoq.templates.sparse.strided import StridedMatrix
from autoq.templates.sparse.structure import Structure
from autoq.templates.sparse.vector_matrix import VectorMatrix


@dataclass(frozen=True)
class SddmmOptions(PlacedOptions):
    """What follows the product, and where it is computed.

    out_dtype: int32, float16, bfloat16 or float32; None for int32 of integers of 4 and 8 bits,
    else float32. row_scale, column_scale: float32, a number or one for each row of a and of b, that
    elements are multiplied by. vector: rows of a vector, 2, 4 or 8. stride: 0 for an output in
    BCRS, else of SR-BCRS. b_dtype: where it is not a's, in `sddmm_operator`. target,
    tuning_records, use_shipped_records and cache_dir as in `autoq.operator`.
    """

    out_dtype: str | None = None
    row_scale: Any = None
    column_scale: Any = None
    vector: int = 8
    stride: int = 0
    b_dtype: str | None = None


@dataclass(frozen=True, eq=False)
class SampledProduct:
    """The elements of a product in the vectors of a mask.

    mask: where they are; its own values are 0. stride: 0 for BCRS. values: [vectors, vector], or
    for SR-BCRS [strides, vector, stride]; numpy, or a DLPack array on the GPU where both factors
    are there. That one may have zeros behind the last vector: a kernel serves masks of a class.
    """

    mask: VectorMatrix
    stride: int
    values: Any

    @property
    def starts(self) -> np.ndarray:
        """Where the places of each vector row start, and their end, [vector rows + 1]."""
        stride = self.stride or 1
        return np.concatenate([[0], np.cumsum(-(-self.mask.lengths // stride) * stride)])

    def matrix(self) -> VectorMatrix | StridedMatrix:
        """The sparse matrix; raises InputError unless the values are numpy."""
        if not isinstance(self.values, np.ndarray):
            raise InputError("the values are on a GPU; copy them to numpy first")
        mask = self.mask
        if not self.stride:
            return VectorMatrix(
                mask.rows, mask.columns, mask.vector, mask.pointers, mask.indices, self.values
            )
        starts = self.starts
        columns = np.zeros(starts[-1], np.int32)
        shift = (starts[:-1] - mask.pointers[:-1])[mask.vector_row_of]
        columns[np.arange(len(mask.indices)) + shift] = mask.indices
        return StridedMatrix(
            mask.rows, mask.columns, mask.vector, self.stride, starts[:-1].astype(np.int32),
            (starts[:-1] + mask.lengths).astype(np.int32), columns, self.values,
        )  # fmt: skip


def sddmm(a: Any, b: Any, mask: Any, **options: Any) -> SampledProduct:
    """The elements of `a @ b.T` where a mask [m, n] has vectors, of a [m, k] and b [n, k].

    a, b: integers of 8 or 16 bits or 16-bit floats, numpy or DLPack. mask: bool numpy [m, n], a
    matrix of scipy.sparse, a torch CSR or BSR tensor or a format of `autoq.templates.sparse`; a
    vector of which any element is kept is computed whole. `options` are the fields of
    `SddmmOptions`. Each call compiles, or finds the kernel in the cache: for many products under
    one mask keep what `sddmm_operator` gives.

    Raises InputError for what the user gave, and else what `autoq.operator` raises.
    """
    arrays = [
        array if isinstance(array, ARRAYS) else tensor_of(name, array)
        for name, array in (("a", a), ("b", b))
    ]
    for name, array in zip("ab", arrays, strict=True):
        if len(array.shape) != 2:
            raise InputError(f"{name} of shape {list(array.shape)!s:.60}: two axes are expected")
    if arrays[0].shape[1] != arrays[1].shape[1]:
        raise InputError(
            f"a is {list(arrays[0].shape)!s:.60} and b {list(arrays[1].shape)!s:.60}: rows of both "
            "have as many values"
        )
    chosen = options_of(SddmmOptions, {"b_dtype": str(arrays[1].dtype), **options})
    vectors = mask_vectors(mask, chosen.vector)
    shape = [int(array.shape[0]) for array in arrays]
    if shape != [vectors.rows, vectors.columns]:
        raise InputError(
            f"the mask is {[vectors.rows, vectors.columns]}; a and b take one of {shape}"
        )
    made = _compiled(vectors, int(arrays[0].shape[1]), str(arrays[0].dtype), chosen)
    product = SampledProduct(vectors, chosen.stride, made(*arrays))
    if isinstance(product.values, np.ndarray):
        whole = product.values[: product.starts[-1] // (chosen.stride or 1)]
        return SampledProduct(vectors, chosen.stride, whole)
    return product


def sddmm_operator(mask: Any, k: int, a_dtype: str = "int8", **options: Any) -> CompiledOperator:
    """The elements of products `a @ b.T` that a mask names, as a function of a [m, k] and b [n, k].

    The dtypes may also be int4 or uint4, two values a byte. The function gives the output of
    `Sddmm`, which has room for every mask of the class. Arguments and errors are those of `sddmm`.
    """
    chosen = options_of(SddmmOptions, options)
    return _compiled(mask_vectors(mask, chosen.vector), k, a_dtype, chosen)


def _compiled(
    vectors: VectorMatrix, k: int, a_dtype: str, chosen: SddmmOptions
) -> CompiledOperator:
    """The kernel of a mask."""
    place = chosen.place
    b_dtype = chosen.b_dtype or a_dtype
    narrow = a_dtype.removeprefix("u") in ("int4", "int8")
    out_dtype = chosen.out_dtype or ("int32" if narrow else "float32")
    workload = Sddmm(
        vectors.rows, vectors.columns, k, vectors.vector,
        Structure.of(vectors.lengths, vectors.pointers, vectors.indices),
        a_dtype, b_dtype, out_dtype, chosen.stride,
    )  # fmt: skip
    constants = {"columns": vectors.indices, "pointers": vectors.pointers}
    for name, extent in (("row_scale", workload.m), ("column_scale", workload.n)):
        given = getattr(chosen, name)
        if out_dtype != "int32":
            value = 1.0 if given is None else given
            constants[name] = numbers_by_row(name, value, extent, "float32")
        elif given is not None:
            raise InputError(f"{name}: sums of int32 have no scale; choose another out_dtype")
    return place.compiled(workload, constants)
