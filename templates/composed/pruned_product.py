"""What kernels of pruned weights ask of a product of integers, of 16-bit floats or of float32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autoq.templates.arrays.element import Element, element
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.workload import Constants

_FLOATS = ("float16", "bfloat16")
_BYTES = ("int8", "uint8")


@dataclass(frozen=True)
class PrunedProduct:
    """A product `y [m, n] = x [m, k] @ weight.T` of whose weight [n, k] zeros are known.

    floating: whether sums are float32. The epilogue of a product of 16-bit floats takes sums that
    are scaled already.
    """

    workload: Gemm | FloatGemm
    epilogue: Epilogue
    floating: bool

    @property
    def m(self) -> int:
        return self.workload.m

    @property
    def n(self) -> int:
        return self.workload.n

    @property
    def k(self) -> int:
        return self.workload.k

    @property
    def value(self) -> Element:
        """The type of x."""
        return element(self.workload.in_dtype)

    @property
    def sparsity(self) -> Sparsity:
        """Its class of weights; `pruned_product` gives none without one."""
        found = self.workload.sparsity
        assert found is not None
        return found

    @property
    def tiles(self) -> int:
        """Most tiles, at least one that writes what no tile computes."""
        return max(1, self.sparsity.tiles(self.n))

    @property
    def scaled(self) -> bool:
        """Whether the epilogue takes sums that are scaled already."""
        return isinstance(self.workload, FloatGemm)

    def thread_epilogue(self, columns: int, values: int) -> ThreadEpilogue:
        """The epilogue of `values` of so many columns: rows of y are images, columns channels."""
        dtypes = {} if self.value.bytes < 4 else {"in_dtype": "float32", "weight_dtype": "float32"}
        conv = Conv2d(
            n=self.m, h=1, w=1, c=1, k=columns, r=1, s=1, epilogue=self.epilogue, **dtypes
        )
        return ThreadEpilogue(conv, values, scaled=self.scaled)

    def of_no_weight(self, constants: Constants) -> np.ndarray:
        """The outputs [n] of columns whose weights are all zero, of which one in a row does."""
        x = self.workload.inputs[0]
        row = np.full((1, 1), constants.get("x_zero_point", 0)).astype(x.element.dtype)
        one = replace(self.workload, m=1, k=1, sparsity=None)
        zero = np.zeros_like(self.weight(constants)[:, :1])
        return one.reference([row], {**constants, "weight": zero})[0][0]

    def weight(self, constants: Constants) -> np.ndarray:
        """The weight [n, k]."""
        return np.asarray(constants["weight"])

    def terms(self, constants: Constants) -> Mapping[str, Any]:
        """Constants of the epilogue by name, with the zero point of x in the bias."""
        if self.value.bytes == 4:
            return constants
        if not self.floating:
            sums = self.weight(constants).sum(axis=1, dtype=np.int64)
            zero_point = int(constants.get("x_zero_point", 0))
            bias = np.asarray(constants["bias"]) - zero_point * sums
            return {**constants, "bias": bias.astype(np.int32)}
        made = {"bias": np.zeros(self.n, np.int32), "scale": np.ones(self.n, np.float32)}
        made["scalars"] = pack_scalars()
        return made | ({"float_bias": constants["bias"]} if self.epilogue.float_bias else {})


def _of_bytes(workload: Gemm) -> bool:
    """Whether both sides are bytes."""
    return {workload.in_dtype, workload.weight_dtype} <= {*_BYTES}


def _of_floats(workload: FloatGemm) -> bool:
    """Whether both sides are of one type of 16-bit floats."""
    return workload.in_dtype == workload.weight_dtype and workload.in_dtype in _FLOATS


def pruned_product(workload: object, *patterns: str) -> PrunedProduct | None:
    """A product with a weight of one of the patterns; None for all others.

    It is of bytes, of 16-bit floats with their own type, or of float32.
    """
    if isinstance(workload, Gemm):
        epilogue = workload.epilogue
        floating = workload.in_dtype == "float32"
        narrow = is_four_bit(epilogue.out_dtype) or is_four_bit(epilogue.residual_dtype or "int8")
        if (
            not (_of_bytes(workload) or floating)
            or narrow
            or epilogue.scale_group
            or epilogue.factor
        ):
            return None
        view = PrunedProduct(workload, epilogue, floating)
    elif isinstance(workload, FloatGemm):
        curved = workload.activation != "none" and workload.residual
        if not _of_floats(workload) or curved or workload.weight_left or workload.batch > 1:
            return None
        residual = workload.out_dtype if workload.residual else None
        epilogue = Epilogue(
            workload.out_dtype, residual, row_scale=workload.x_scale, float_bias=workload.bias,
            activation=workload.activation,
        )  # fmt: skip
        view = PrunedProduct(workload, epilogue, True)
    else:
        return None
    sparsity = workload.sparsity
    return None if sparsity is None or sparsity.pattern not in patterns else view


def takes_constants_alone(workload: Gemm | FloatGemm) -> bool:
    """Whether bytes or 16-bit floats are multiplied, and constants of columns alone follow."""
    if isinstance(workload, Gemm):
        epilogue = workload.epilogue
        plain = epilogue.residual_dtype is None and not epilogue.row_scale
        narrow = epilogue.scale_group or is_four_bit(epilogue.out_dtype)
        return _of_bytes(workload) and plain and not narrow
    return _of_floats(workload) and workload.plain and not workload.weight_left
