"""What kernels of 2:4 sparse products ask of a workload, of integers or of 16-bit floats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autoq.templates.arrays.element import Element, element
from autoq.templates.composed.pruned_product import takes_constants_alone
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.epilogue.cuda.short_forms.allowed import convertible, readable
from autoq.templates.epilogue.cuda.short_forms.choice import Operands, ShortForm, short_form
from autoq.templates.epilogue.cuda.short_forms.words import IS_CONVERTED, IS_READ
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import TWO_FOUR
from autoq.templates.workload import Constants


@dataclass(frozen=True)
class TwoFourView:
    """A product `y [m, n] = x [m, k] @ weight.T` with a 2:4 sparse weight [n, k].

    floating: whether sums are float32. The epilogue of a product of floats takes sums that are
    scaled already. Constants of its columns follow a sum, and bytes that are added to its own.
    """

    workload: Gemm | FloatGemm
    epilogue: Epilogue
    floating: bool

    @property
    def value(self) -> Element:
        """The type of x."""
        return element(self.workload.in_dtype)

    @property
    def residual(self) -> bool:
        """Whether bytes are added."""
        return self.epilogue.residual_dtype is not None

    @property
    def out_bytes(self) -> int:
        """Bytes of an output."""
        return element(self.epilogue.out_dtype).bytes

    @property
    def in_boxes(self) -> bool:
        """Whether TMA can copy 64 columns of y in swizzled rows."""
        return self.out_bytes <= 2 and self.workload.n * self.out_bytes % 16 == 0

    @property
    def shortened(self) -> bool:
        """Whether operands may allow a short form of the epilogue."""
        return not self.floating and (readable(self.epilogue) or convertible(self.epilogue))

    def short_form(self, terms: Mapping[str, Any]) -> ShortForm:
        """The short form that the epilogue's terms allow."""
        return short_form_of(self.epilogue, self.workload.in_dtype, terms, self.shortened)

    def as_conv2d(self, columns: int) -> Conv2d:
        """What an epilogue of so many columns knows: rows of y are images, columns channels."""
        return Conv2d(n=self.workload.m, h=1, w=1, c=1, k=columns, r=1, s=1, epilogue=self.epilogue)

    def terms(self, constants: Constants) -> Mapping[str, Any]:
        """Constants of the epilogue by name, with the zero point of x in the bias."""
        n = len(constants["weight"])
        if not self.floating:
            sums = np.asarray(constants["weight"]).astype(np.int64).sum(axis=1)
            bias = np.asarray(constants["bias"]) - int(constants.get("x_zero_point", 0)) * sums
            return {**constants, "bias": bias.astype(np.int32)}
        made = {"bias": np.zeros(n, np.int32), "scale": np.ones(n, np.float32)}
        made["scalars"] = pack_scalars()
        return made | ({"float_bias": constants["bias"]} if self.epilogue.float_bias else {})


def short_form_of(
    epilogue: Epilogue, in_dtype: str, terms: Mapping[str, Any], shortened: bool
) -> ShortForm:
    """The short form of sums that the epilogue's terms allow; none of its words unless shortened.

    in_dtype: of x. terms: constants of the epilogue by name, and the weight.
    """
    if not shortened:
        return ShortForm(np.empty(0, np.float32))
    operands = Operands(
        in_dtype, np.asarray(terms["weight"]), np.asarray(terms["bias"]),
        np.asarray(terms["scale"], np.float32), np.asarray(terms["scalars"], np.float32),
    )  # fmt: skip
    found = short_form(replace(epilogue, uniform=False), operands)
    of_sums = found.numbers[0] in (IS_CONVERTED, IS_READ)
    return found if of_sums else ShortForm(np.zeros_like(found.numbers))


def _finished(workload: Gemm) -> bool:
    """Whether constants of columns alone follow sums, or bytes that are added to its own bytes."""
    epilogue = workload.epilogue
    if epilogue.residual_dtype in ("int8", "uint8") and convertible(epilogue):
        workload = replace(workload, epilogue=Epilogue(epilogue.out_dtype))
    return takes_constants_alone(workload)


def view_of(workload: object) -> TwoFourView | None:
    """The view of a 2:4 sparse product of bytes or 16-bit floats; None for all others."""
    if not isinstance(workload, Gemm | FloatGemm):
        return None
    if workload.sparsity is None or workload.sparsity.pattern != TWO_FOUR:
        return None
    if isinstance(workload, Gemm):
        return TwoFourView(workload, workload.epilogue, False) if _finished(workload) else None
    if not takes_constants_alone(workload):
        return None
    epilogue = Epilogue(
        workload.out_dtype, float_bias=workload.bias, activation=workload.activation
    )
    return TwoFourView(workload, epilogue, True)
