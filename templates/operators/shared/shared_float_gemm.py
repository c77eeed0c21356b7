"""Products of one matrix of floats with several weights of a shape, each with a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autoq.errors import InputError
from autoq.templates.field_types import require_positive
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.shared.shared_products import MOST_PRODUCTS, SharedProducts
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class SharedFloatGemm(SharedProducts, operator="shared_float_gemm"):
    """`products` times a `FloatGemm` of the same x `[m, k]`, with outputs `[m, n]` each.

    The other fields, the constants and what they mean are those of `FloatGemm`; the constants have
    a first axis of so many. Raises InputError for extents below 1 and other numbers of products.
    """

    products: int
    m: int
    n: int
    k: int
    in_dtype: str = "float16"
    weight_dtype: str = "int8"
    out_dtype: str = "float16"
    group: int = 0
    zero_points: bool = False
    bias: bool = False
    activation: str = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "m", "n", "k")
        if not 2 <= self.products <= MOST_PRODUCTS:
            raise InputError(f"{self.products} products: 2 to {MOST_PRODUCTS}")
        self.one  # noqa: B018  (raises for types that do not go together)

    def _of(self, batch: int) -> FloatGemm:
        return FloatGemm(
            self.m, self.n, self.k, self.in_dtype, self.weight_dtype, self.out_dtype, self.group,
            self.zero_points, self.bias, self.activation, batch=batch,
        )  # fmt: skip

    @property
    def one(self) -> FloatGemm:
        """Each of the products."""
        return self._of(1)

    @property
    def batched(self) -> FloatGemm:
        """A batch of as many products, with an x for each."""
        return self._of(self.products)


def sharing(workloads: Sequence[Workload]) -> SharedFloatGemm | None:
    """The one workload of several that read the same activation, None where there is none."""
    first = workloads[0]
    if not isinstance(first, FloatGemm) or any(workload != first for workload in workloads):
        return None
    if not (first.alone and 2 <= len(workloads) <= MOST_PRODUCTS) or first.weight_left:
        return None
    found = SharedFloatGemm(
        len(workloads), first.m, first.n, first.k, first.in_dtype, first.weight_dtype,
        first.out_dtype, first.group, first.zero_points, first.bias, first.activation,
    )  # fmt: skip
    return found if found.one == first else None  # which zeros are known has no form here
