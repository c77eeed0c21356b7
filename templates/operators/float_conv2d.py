"""Convolution of images of 16-bit floats, and what is fused behind it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.borders.filtered_image import FilteredImage
from autoq.templates.field_types import require_positive
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.oracle.random_arrays import random_inputs
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.target import Target
from autoq.templates.workload import Arrays, Constants, Tolerance, Workload

_FLOATS = ("float16", "bfloat16")


@dataclass(frozen=True)
class FloatConv2d(FilteredImage, Workload, operator="float_conv2d"):
    """Convolution of `x [n, h, w, c]` with `weight [k, r, s, c / groups]` and what follows it.

    As of a `FloatGemm`, `y = activation(sums + bias) + residual`, y and the residual
    `[n, p, q, k]`; with residual_first the residual is added in front of the activation. padding is
    (top, left, bottom, right) in pixels of 0. Each of the groups has its own channels of x and of
    y. in_dtype is that of x and weight, float16 or bfloat16; out_dtype, of y and of the residual,
    one of them or float32. Sums are float32.

    sparsity: what is known to be zero of the weight as a matrix [k, r * s * c], of one group.

    The constants are `weight` and, with bias, `bias` float32 `[k]`.

    Raises InputError for extents below 1, other dtypes, groups that do not divide the channels, a
    sparsity of several groups, and a filter larger than the padded image.
    """

    n: int
    h: int
    w: int
    c: int
    k: int
    r: int
    s: int
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    in_dtype: str = "float16"
    out_dtype: str = "float16"
    bias: bool = False
    activation: str = "none"
    residual: bool = False
    residual_first: bool = False
    groups: int = 1
    sparsity: Sparsity | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "n", "h", "w", "c", "k", "r", "s", "stride", "dilation", "groups")
        if self.in_dtype not in _FLOATS:
            raise InputError(f"in_dtype {self.in_dtype!r}: one of {', '.join(_FLOATS)}")
        if self.c % self.groups or self.k % self.groups:
            raise InputError(
                f"groups {self.groups} do not divide the {self.c} and {self.k} channels"
            )
        if self.p <= 0 or self.q <= 0:
            raise InputError(f"{self}: the padded image is smaller than the filter")
        if self.sparsity is not None and self.groups > 1:
            raise InputError(f"{self}: the sparsity is that of the weight of one group")
        _ = self.product  # which refuses the rest

    @property
    def product(self) -> FloatGemm:
        """The product of all patches of x, [n * p * q, r * s * c / groups], with the weight.

        Of several groups it is one that adds as many terms, with as many operations.
        """
        return self.product_of(self.c // self.groups)

    def product_of(self, channels: int) -> FloatGemm:
        """The same with so many channels of each tap, some of which may be padding."""
        return FloatGemm(
            self.n * self.p * self.q, self.k, self.r * self.s * channels, self.in_dtype,
            self.in_dtype, self.out_dtype, bias=self.bias, activation=self.activation,
            residual=self.residual, residual_first=self.residual_first,
        )  # fmt: skip

    @property
    def y_shape(self) -> tuple[int, int, int, int]:
        return self.n, self.p, self.q, self.k

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        return self.k, self.r, self.s, self.c // self.groups

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        specs = [TensorSpec("x", (self.n, self.h, self.w, self.c), self.in_dtype)]
        if self.residual:
            specs.append(TensorSpec("residual", self.y_shape, self.out_dtype))
        return tuple(specs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", self.y_shape, self.out_dtype),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        specs = [TensorSpec("weight", self.weight_shape, self.in_dtype)]
        if self.bias:
            specs.append(TensorSpec("bias", (self.k,), "float32"))
        return tuple(specs)

    @property
    def operations(self) -> int:
        """Multiplications plus additions of what is not known to be zero, padding included."""
        return dataclasses.replace(self.product, sparsity=self.sparsity).operations

    def with_sparsity(self, sparsity: Sparsity) -> Workload | None:
        return None if self.groups > 1 else dataclasses.replace(self, sparsity=sparsity)

    @property
    def dense(self) -> Workload:
        return dataclasses.replace(self, sparsity=None)

    def check_constants(self, constants: Constants) -> None:
        super().check_constants(constants)
        if self.sparsity is not None:
            self.sparsity.check(np.asarray(constants["weight"]).reshape(self.k, -1), str(self))

    def key_fields(self) -> dict[str, Any]:
        fields = super().key_fields()
        if self.sparsity is None:  # keys of dense convolutions stay as they are
            fields.pop("sparsity", None)
        return fields

    @property
    def bytes(self) -> int:
        return super().bytes + self.constants[0].bytes

    def with_output(self, dtype: str) -> FloatConv2d:
        """The convolution with an output of another type of floats."""
        return dataclasses.replace(self, out_dtype=dtype)

    def tolerance(self, target: Target) -> Tolerance:
        """That of the product over all taps and channels."""
        return self.product.tolerance(target)

    def patches(self, x: np.ndarray) -> np.ndarray:
        """The rows of the product, [n * p * q, r * s * c], of x or of some of its channels."""
        top, left, bottom, right = self.padding
        wide = np.pad(x, [(0, 0), (top, bottom), (left, right), (0, 0)])
        taps = [
            wide[
                :,
                row * self.dilation[0] :: self.stride[0],
                column * self.dilation[1] :: self.stride[1],
            ][:, : self.p, : self.q]
            for row in range(self.r)
            for column in range(self.s)
        ]
        return np.stack(taps, 3).reshape(self.n * self.p * self.q, -1)

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        return self.reference_in_threads(activations, constants, 1)

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        groups = [self._of_group(activations, constants, group) for group in range(self.groups)]
        product = dataclasses.replace(self.product, n=self.k // self.groups)
        found = [product.reference_in_threads(rows, flat, threads)[0] for rows, flat in groups]
        return (np.concatenate(found, 1).reshape(self.y_shape),)

    def _of_group(
        self, activations: Sequence[np.ndarray], constants: Constants, group: int
    ) -> tuple[list[np.ndarray], dict[str, Any]]:
        """The inputs and the constants of a group's product."""
        c, k = self.c // self.groups, self.k // self.groups
        filters = slice(group * k, group * k + k)
        rows = [self.patches(activations[0][..., group * c : group * c + c])]
        rows += [array.reshape(-1, self.k)[:, filters] for array in activations[1:]]
        flat = {name: np.asarray(array)[filters] for name, array in constants.items()}
        return rows, {**flat, "weight": flat["weight"].reshape(k, -1)}

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        shape = (self.k, math.prod(self.weight_shape[1:]))
        (weight,) = random_inputs(rng, (TensorSpec("weight", shape, self.in_dtype),))
        if self.sparsity is not None:
            weight = self.sparsity.pruned(rng, weight)
        weight = (weight.astype(np.float32) / math.sqrt(shape[1])).astype(weight.dtype)
        constants: dict[str, Any] = {"weight": weight.reshape(self.constants[0].shape)}
        if self.bias:
            constants["bias"] = rng.standard_normal(self.k, np.float32)
        return random_inputs(rng, self.inputs), constants

    def __str__(self) -> str:
        text = f"N{self.n} {self.r}x{self.s} {self.h}x{self.w}x{self.c}->{self.k} {self.in_dtype}"
        if self.stride != (1, 1):
            text += f" s{self.stride[0]}"
        if self.dilation != (1, 1):
            text += f" d{self.dilation[0]}"
        if self.groups > 1:
            text += f" g{self.groups}"
        return text if self.sparsity is None else f"{text} {self.sparsity}"
