"""What the 2:4 sparse kernel on mma.sp asks of a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoq.templates.arrays.element import element
from autoq.templates.composed.pruned_product import PrunedProduct, pruned_product
from autoq.templates.cuda.pruned.two_four.view import short_form_of
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.short_forms.allowed import readable
from autoq.templates.epilogue.cuda.short_forms.choice import ShortForm
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import TWO_FOUR

THREAD_VALUES = 4
"""Outputs that an epilogue finishes at a time, of one row of y."""


@dataclass(frozen=True)
class TwoFourProduct:
    """A product `y [m, n] = x [m, k] @ weight.T` with a 2:4 sparse weight [n, k]."""

    product: PrunedProduct

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
    def out_bytes(self) -> int:
        """Bytes of an output."""
        return element(self.epilogue.out_dtype).bytes

    @property
    def shortened(self) -> bool:
        """Whether operands may allow a short form of the epilogue, which no table has."""
        plain = readable(self.epilogue) and not self.epilogue.row_scale
        return not self.floating and plain and not self.epilogue.table

    def short_form(self, terms: Mapping[str, Any]) -> ShortForm:
        """The short form that the epilogue's terms allow."""
        return short_form_of(self.epilogue, self.workload.in_dtype, terms, self.shortened)

    def thread_epilogue(self, columns: int) -> ThreadEpilogue:
        """The epilogue of four of so many columns of a row of y."""
        whole = self.product.thread_epilogue(columns, THREAD_VALUES)
        return ThreadEpilogue(whole.workload, whole.values, whole.scaled, self.shortened)


def two_four_product(workload: object) -> TwoFourProduct | None:
    """The view of a 2:4 sparse product of bytes or 16-bit floats; None for all others."""
    product = pruned_product(workload, TWO_FOUR)
    return None if product is None or product.value.bytes > 2 else TwoFourProduct(product)
