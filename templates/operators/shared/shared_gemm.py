"""Products of one matrix with several others of a shape, each with an epilogue and a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autoq.errors import InputError
from autoq.templates.epilogue import Epilogue
from autoq.templates.field_types import require_positive
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.product import OF_RUN
from autoq.templates.operators.shared.shared_products import MOST_PRODUCTS, SharedProducts
from autoq.templates.workload import Workload

_OUTPUTS = ("int8", "uint8", "float32")


@dataclass(frozen=True)
class SharedGemm(SharedProducts, operator="shared_gemm"):
    """`products` times `Gemm(m, n, k)` of the same x `[m, k]`, with outputs `[m, n]` each.

    The constants are those of a Gemm with a first axis of so many: `weight` `[products, n, k]`,
    `scalars` `[products, 8]` and so on, but for the one `x_zero_point`. The epilogue has neither a
    residual nor scales of rows. Raises InputError for extents below 1 and other numbers of
    products.
    """

    products: int
    m: int
    n: int
    k: int
    in_dtype: str = "int8"
    weight_dtype: str = "int8"
    epilogue: Epilogue = field(default_factory=Epilogue)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "m", "n", "k")
        if not 2 <= self.products <= MOST_PRODUCTS:
            raise InputError(f"{self.products} products: 2 to {MOST_PRODUCTS}")
        known = self.epilogue.out_dtype in _OUTPUTS
        if not _reads_alike(self.one) or self.in_dtype == "float32" or not known:
            raise InputError(
                f"{self}: products of integers to bytes or float32, of x and its numbers alone"
            )

    @property
    def dynamic(self) -> bool:
        return self.epilogue.dynamic

    @property
    def one(self) -> Gemm:
        """Each of the products."""
        return Gemm(self.m, self.n, self.k, self.in_dtype, self.weight_dtype, self.epilogue)

    @property
    def whole(self) -> Gemm:
        """A product of as much work."""
        return Gemm(
            self.m, self.products * self.n, self.k, self.in_dtype, self.weight_dtype, self.epilogue
        )

    def retyped(self, inputs: Sequence[str], outputs: Sequence[str]) -> Workload:
        if len(set(outputs)) > 1:
            raise ValueError(f"{self} has outputs of one type, not {', '.join(outputs)}")
        one = self.one.retyped(inputs, outputs[:1])
        if not isinstance(one, Gemm):
            raise ValueError(f"{self} has no form from {', '.join(inputs)}")
        return shared(one, self.products)


def _reads_alike(one: Gemm) -> bool:
    """Whether a product reads nothing but x and the numbers by which it was quantised."""
    return not one.epilogue.by_range and all(spec.name in ("x", *OF_RUN) for spec in one.inputs)


def shared(one: Gemm, products: int) -> SharedGemm:
    """So many products of the shape and epilogue of one."""
    return SharedGemm(products, one.m, one.n, one.k, one.in_dtype, one.weight_dtype, one.epilogue)


def sharing(workloads: Sequence[Workload]) -> SharedGemm | None:
    """The one workload of several that read the same activation, None where there is none."""
    first = workloads[0]
    alike = isinstance(first, Gemm) and all(workload == first for workload in workloads)
    if not alike or not isinstance(first, Gemm) or not 2 <= len(workloads) <= MOST_PRODUCTS:
        return None
    plain = _reads_alike(first) and first.epilogue.out_dtype in _OUTPUTS
    if not plain or first.in_dtype == "float32":
        return None
    found = shared(first, len(workloads))
    return found if found.one == first else None  # which zeros are known has no form here
