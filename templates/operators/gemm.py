"""Product of two matrices, and what is fused behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autoq.errors import InputError
from autoq.templates.epilogue import Epilogue, FloatTerms, apply_epilogue
from autoq.templates.field_types import require_positive
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.dynamic_quantize import DynamicQuantize
from autoq.templates.operators.product import Product
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.workload import Arrays, Constants, Workload


@dataclass(frozen=True)
class Gemm(Product, operator="gemm"):
    """Matrix product `x [m, k]` with `weight [n, k]`, then an epilogue over `[m, n]`.

    dtypes as for `Conv2d`. sparsity: what is known to be zero of the weight, which templates may
    make use of and dense ones need not.

    Raises InputError for extents below 1, other dtypes and groups of scales that do not divide k.
    """

    m: int
    n: int
    k: int
    in_dtype: str = "int8"
    weight_dtype: str = "int8"
    epilogue: Epilogue = field(default_factory=Epilogue)
    sparsity: Sparsity | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "m", "n", "k")
        group = self.epilogue.scale_group
        if group and self.k % group:
            raise InputError(f"{self}: groups of {group} do not divide k = {self.k}")

    @property
    def factors(self) -> tuple[str, str]:
        """Dtypes of the left and of the right matrix."""
        return (self.in_dtype, self.weight_dtype)

    @property
    def operations(self) -> int:
        """Multiplications plus additions, of what is not known to be zero."""
        weights = self.n * self.k
        return 2 * self.m * (self.sparsity.weights(weights) if self.sparsity else weights)

    def with_sparsity(self, sparsity: Sparsity) -> Workload | None:
        return replace(self, sparsity=sparsity)

    def over_channels(self, count: int) -> Workload | None:
        return None if self.epilogue.scale_group else replace(self, k=count)

    def by_range(self) -> Workload | None:
        epilogue = self.epilogue
        if not epilogue.dynamic or epilogue.out_dtype != "float32":
            return None
        return replace(self, epilogue=replace(epilogue, out_dtype="uint8", by_range=True))

    @property
    def dense(self) -> Workload:
        return replace(self, sparsity=None)

    def as_conv2d(self) -> Conv2d:
        """The same arithmetic as a 1x1 convolution over m images of one pixel."""
        return Conv2d(
            n=self.m, h=1, w=1, c=self.k, k=self.n, r=1, s=1,
            in_dtype=self.in_dtype, weight_dtype=self.weight_dtype, epilogue=self.epilogue,
        )  # fmt: skip

    @property
    def x_shape(self) -> tuple[int, int]:
        return (self.m, self.k)

    @property
    def weight_shape(self) -> tuple[int, int]:
        return (self.n, self.k)

    @property
    def y_shape(self) -> tuple[int, int]:
        return (self.m, self.n)

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        if self.epilogue.by_range:
            values = replace(self, epilogue=self.epilogue.values)
            (y,) = values.reference_in_threads(activations, constants, threads)
            found = DynamicQuantize(y.size).reference([y.reshape(-1)], {})
            return (found[0].reshape(self.y_shape), *found[1:])
        if self.epilogue.scale_group:
            return (self._sum_of_groups(activations, constants, threads),)
        as_images = [
            array if array.ndim == 1 else array.reshape(self.m, 1, 1, -1) for array in activations
        ]
        weight = np.asarray(constants["weight"]).reshape(self.n, 1, 1, self.k)
        conv, as_filters = self.as_conv2d(), {**constants, "weight": weight}
        (y,) = conv.reference_in_threads(as_images, as_filters, threads)
        return (y.reshape(self.y_shape),)

    def _sum_of_groups(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> np.ndarray:
        """The output where groups along k have scales of their own."""
        group, epilogue = self.epilogue.scale_group, self.epilogue
        given = dict(zip((spec.name for spec in self.inputs), activations, strict=True))
        part = replace(self, k=group, epilogue=Epilogue("int32"), sparsity=None)
        weight, scale = np.asarray(constants["weight"]), np.asarray(constants["scale"])
        bias = np.asarray(constants["bias"])
        value = np.zeros(self.y_shape, np.float32)
        for index in range(self.scale_groups):
            columns = slice(index * group, (index + 1) * group)
            own = {
                "weight": weight[:, columns],
                "bias": bias if index == 0 else np.zeros_like(bias),
                "scalars": constants["scalars"],
                "x_zero_point": constants.get("x_zero_point", 0),
            }
            x = np.ascontiguousarray(given["x"][:, columns])
            (sums,) = part.reference_in_threads([x], own, threads)
            value += sums.astype(np.float32) * scale[:, index]
        rows, float_bias = given.get("row_scale"), constants.get("float_bias")
        return apply_epilogue(
            epilogue,
            value,
            np.float32(0),
            None,
            np.asarray(constants["scalars"]),
            given.get("residual"),
            terms=FloatTerms(None if rows is None else rows[:, None], float_bias),
        )

    def __str__(self) -> str:
        pattern = "" if self.sparsity is None else f" {self.sparsity}"
        return f"{self.m}x{self.n}x{self.k}{pattern}"


def factored(workload: Workload, out_dtype: str, residual_dtype: str) -> Gemm | None:
    """A product of bytes whose channels are scaled, and a residual added, behind its rounding.

    None for anything else, and where something else follows its sums already.
    """
    if not isinstance(workload, Gemm) or workload.sparsity is not None:
        return None
    epilogue = workload.epilogue
    plain = epilogue.of_convolutions and epilogue.residual_dtype is None and not epilogue.table
    if not plain or not {epilogue.out_dtype, out_dtype, residual_dtype} <= {"int8", "uint8"}:
        return None
    behind = replace(
        epilogue, out_dtype=out_dtype, residual_dtype=residual_dtype, requantize_before_add=True,
        factor=True, uniform=False,
    )  # fmt: skip
    return replace(workload, epilogue=behind)
