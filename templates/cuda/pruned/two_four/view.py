"""What kernels of 2:4 sparse products ask of a workload, of integers or of 16-bit floats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autoq.templates.arrays.element import Element, element
from autoq.templates.composed.pruned_product import PrunedProduct, pruned_product
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.short_forms.allowed import convertible, readable
from autoq.templates.epilogue.cuda.short_forms.choice import Operands, ShortForm, short_form
from autoq.templates.epilogue.cuda.short_forms.words import IS_CONVERTED, IS_READ
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import TWO_FOUR
from autoq.templates.workload import Constants

THREAD_VALUES = 4
"""Outputs that an epilogue finishes at a time."""


@dataclass(frozen=True)
class TwoFourProduct:
    """A product `y [m, n] = x [m, k] @ weight.T` with a 2:4 sparse weight [n, k].

    every_form: whether the kernel has the short forms of the epilogue that tables and residuals
    allow, too.
    """

    product: PrunedProduct
    every_form: bool

    @property
    def workload(self) -> Gemm | FloatGemm:
        return self.product.workload

    @property
    def epilogue(self) -> Epilogue:
        return self.product.epilogue

    @property
    def floating(self) -> bool:
        """Whether sums are float32."""
        return self.product.floating

    @property
    def value(self) -> Element:
        """The type of x."""
        return self.product.value

    @property
    def residual(self) -> bool:
        """Whether something is added."""
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
        epilogue = self.epilogue
        if self.every_form:
            return not self.floating and (readable(epilogue) or convertible(epilogue))
        plain = readable(epilogue) and not epilogue.row_scale
        return not self.floating and plain and not epilogue.table

    def thread_epilogue(self, columns: int) -> ThreadEpilogue:
        """The epilogue of `THREAD_VALUES` of so many columns of y."""
        whole = self.product.thread_epilogue(columns, THREAD_VALUES)
        return replace(whole, shortened=self.shortened)

    def terms(self, constants: Constants) -> Mapping[str, Any]:
        """Constants of the epilogue by name, with the zero point of x in the bias."""
        return self.product.terms(constants)

    def short_form(self, terms: Mapping[str, Any]) -> ShortForm:
        """The short form that the epilogue's terms allow; none of its words unless shortened.

        terms: constants of the epilogue by name, and the weight.
        """
        if not self.shortened:
            return ShortForm(np.empty(0, np.float32))
        operands = Operands(
            self.workload.in_dtype, np.asarray(terms["weight"]), np.asarray(terms["bias"]),
            np.asarray(terms["scale"], np.float32), np.asarray(terms["scalars"], np.float32),
        )  # fmt: skip
        found = short_form(replace(self.epilogue, uniform=False), operands)
        of_sums = found.numbers[0] in (IS_CONVERTED, IS_READ)
        return found if of_sums else ShortForm(np.zeros_like(found.numbers))


def two_four_product(workload: object, every_form: bool) -> TwoFourProduct | None:
    """The view of a 2:4 sparse product of bytes or 16-bit floats; None for all others."""
    product = pruned_product(workload, TWO_FOUR)
    if product is None or product.value.bytes > 2:
        return None
    return TwoFourProduct(product, every_form)
