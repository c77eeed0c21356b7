"""What kernels of tile-wise products ask of a workload, of integers or of 16-bit floats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autoq.templates.element import Element, element
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import TILE_WISE, Sparsity
from autoq.templates.storage import is_four_bit
from autoq.templates.workload import Constants

_FLOATS = ("float16", "bfloat16")
_BYTES = ("int8", "uint8")


@dataclass(frozen=True)
class TileWiseView:
    """A product `y [m, n] = x [m, k] @ weight.T` with a tile-wise weight [n, k].

    floating: whether sums are float32. The epilogue of a product of floats takes sums that are
    scaled already.
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
        """Its class of weights; `view_of` gives no view without one."""
        found = self.workload.sparsity
        assert found is not None
        return found

    @property
    def tiles(self) -> int:
        """Most tiles, at least one that writes what no tile computes."""
        return max(1, self.sparsity.tiles(self.n))

    def as_conv2d(self, columns: int) -> Conv2d:
        """What an epilogue of so many columns knows: rows of y are images, columns channels."""
        return Conv2d(n=self.m, h=1, w=1, c=1, k=columns, r=1, s=1, epilogue=self.epilogue)

    def of_no_weight(self, constants: Constants) -> np.ndarray:
        """The outputs [n] of columns whose weights are all zero."""
        x = self.workload.inputs[0]
        row = np.full((1, self.k), constants.get("x_zero_point", 0)).astype(x.element.dtype)
        one = replace(self.workload, m=1, sparsity=None)
        zero = np.zeros_like(self.weight(constants))
        return one.reference([row], {**constants, "weight": zero})[0][0]

    def weight(self, constants: Constants) -> np.ndarray:
        """The weight [n, k]."""
        return np.asarray(constants["weight"])

    def terms(self, constants: Constants) -> Mapping[str, Any]:
        """Constants of the epilogue by name, with the zero point of x in the bias."""
        if not self.floating:
            sums = self.weight(constants).astype(np.int64).sum(axis=1)
            zero_point = int(constants.get("x_zero_point", 0))
            bias = np.asarray(constants["bias"]) - zero_point * sums
            return {**constants, "bias": bias.astype(np.int32)}
        made = {"bias": np.zeros(self.n, np.int32), "scale": np.ones(self.n, np.float32)}
        made["scalars"] = pack_scalars()
        return made | ({"float_bias": constants["bias"]} if self.epilogue.float_bias else {})


def view_of(workload: object) -> TileWiseView | None:
    """The view of a tile-wise product of bytes or 16-bit floats; None for all others."""
    if isinstance(workload, Gemm):
        epilogue = workload.epilogue
        bytes_alone = {workload.in_dtype, workload.weight_dtype} <= {*_BYTES}
        narrow = is_four_bit(epilogue.out_dtype) or is_four_bit(epilogue.residual_dtype or "int8")
        if not bytes_alone or narrow or epilogue.scale_group or epilogue.factor:
            return None
        view = TileWiseView(workload, epilogue, False)
    elif isinstance(workload, FloatGemm):
        curved = workload.activation != "none" and workload.residual
        same = workload.in_dtype == workload.weight_dtype and workload.in_dtype in _FLOATS
        if not same or curved or workload.weight_left or workload.batch > 1:
            return None
        residual = workload.out_dtype if workload.residual else None
        epilogue = Epilogue(
            workload.out_dtype, residual, row_scale=workload.x_scale, float_bias=workload.bias,
            activation=workload.activation,
        )  # fmt: skip
        view = TileWiseView(workload, epilogue, True)
    else:
        return None
    sparsity = workload.sparsity
    return None if sparsity is None or sparsity.pattern != TILE_WISE else view
