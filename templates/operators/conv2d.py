"""Convolution of images with filters, and what is fused behind it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.element import element
from autoq.templates.arrays.layout import LAYOUTS, NHWC, NHWCNC, fits, from_nhwc, shape_in, to_nhwc
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.borders.classes import border_classes
from autoq.templates.borders.filtered_image import FilteredImage
from autoq.templates.epilogue import Epilogue, FloatTerms, apply_epilogue
from autoq.templates.field_types import require_positive
from autoq.templates.operators.product import Product
from autoq.templates.oracle.convolution_sums import ConvolutionSums, Tile
from autoq.templates.oracle.threads import in_threads
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.workload import Arrays, Constants, Workload


@dataclass(frozen=True)
class Conv2d(FilteredImage, Product, operator="conv2d"):
    """Convolution `x [n, h, w, c]` with `weight [k, r, s, c / groups]`, then an epilogue.

    padding is (top, left, bottom, right) in pixels. `zero_point_border` says that the activations'
    zero point is not 0 and that padding exists: what lies outside the image then means that zero
    point, and the kernel takes a bias for every kind of border (see `borders/bias.py`).
    `border_bias` says that `bias` itself is int32 [row classes, column classes, k], one for every
    kind of border, as where constant channels were left out of x: kernels are those of a
    `zero_point_border`.
    in_dtype is int4, uint4, int8, uint8 or float32; weight_dtype int4 or int8 (float32 for
    float32).
    in_layout is that of x, out_layout that of y and of the residual: "NHWC", or "NHWCnc" where
    bytes fill its blocks (n a multiple of 8, channels of 16).
    sparsity: what is known to be zero of the weight as a matrix [k, r * s * c], of one group.

    Raises InputError for extents below 1, other dtypes, a filter larger than the padded image,
    groups that do not divide c and k, layouts that the arrays cannot have, a sparsity of several
    groups, and a `border_bias` of these or of floats, without `zero_point_border` or behind sums of
    several scales.
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
    groups: int = 1
    in_dtype: str = "int8"
    weight_dtype: str = "int8"
    zero_point_border: bool = False
    epilogue: Epilogue = field(default_factory=Epilogue)
    in_layout: str = NHWC
    out_layout: str = NHWC
    sparsity: Sparsity | None = None
    border_bias: bool = False

    has_layouts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "n", "h", "w", "c", "k", "r", "s", "stride", "dilation", "groups")
        if self.p <= 0 or self.q <= 0:
            raise InputError(f"{self}: the padded image is smaller than the filter")
        if self.c % self.groups or self.k % self.groups:
            raise InputError(f"{self}: groups must divide c and k")
        if self.sparsity is not None and self.groups > 1:
            raise InputError(f"{self}: the sparsity is that of the weight of one group")
        several = self.groups > 1 or self.epilogue.scale_group or self.epilogue.dynamic
        plain = self.in_dtype == "float32" or not self.zero_point_border
        if self.border_bias and (several or plain):
            raise InputError(f"{self}: a bias of borders is of one group of integers and one scale")
        if not {self.in_layout, self.out_layout} <= set(LAYOUTS):
            raise InputError(f"{self}: a layout is one of {', '.join(LAYOUTS)}")
        if self.in_layout == NHWCNC and not self.may_read_blocks:
            raise InputError(f"{self}: x does not fill the blocks of {NHWCNC}")
        if self.out_layout == NHWCNC and not self.may_write_blocks:
            raise InputError(f"{self}: y or its residual does not fill the blocks of {NHWCNC}")

    @property
    def may_read_blocks(self) -> bool:
        """Whether x has an NHWCnc form."""
        return fits(self.n, self.c, self.in_dtype)

    @property
    def may_write_blocks(self) -> bool:
        """Whether y, and the residual where there is one, have an NHWCnc form."""
        out, residual = self.epilogue.out_dtype, self.epilogue.residual_dtype
        if not (fits(self.n, self.k, out) and self.epilogue.of_convolutions):
            return False
        # The residual has y's shape, so its blocks hold as many channels.
        return residual is None or element(residual).bits == element(out).bits

    @property
    def operations(self) -> int:
        """Multiplications plus additions of what is not known to be zero, padding included."""
        weights = self.k * self.r * self.s * (self.c // self.groups)
        kept = self.sparsity.weights(weights) if self.sparsity else weights
        return 2 * self.n * self.p * self.q * kept

    def with_sparsity(self, sparsity: Sparsity) -> Workload | None:
        return None if self.groups > 1 else dataclasses.replace(self, sparsity=sparsity)

    @property
    def dense(self) -> Workload:
        return dataclasses.replace(self, sparsity=None)

    @property
    def x_shape(self) -> tuple[int, ...]:
        """Shape of x in `in_layout`."""
        return shape_in((self.n, self.h, self.w, self.c), self.in_layout, self.in_dtype)

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        return (self.k, self.r, self.s, self.c // self.groups)

    @property
    def y_shape(self) -> tuple[int, ...]:
        """Shape of y and of the residual in `out_layout`."""
        shape = (self.n, self.p, self.q, self.k)
        return shape_in(shape, self.out_layout, self.epilogue.out_dtype)

    @property
    def in_nhwc(self) -> Conv2d:
        """The same arithmetic over NHWC activations."""
        return dataclasses.replace(self, in_layout=NHWC, out_layout=NHWC)

    def laid_out(self, layouts: Sequence[str] = LAYOUTS) -> list[Conv2d]:
        """The same arithmetic in every pair of the given layouts that has a form."""
        reads = [a for a in layouts if a == NHWC or self.may_read_blocks]
        writes = [a for a in layouts if a == NHWC or self.may_write_blocks]
        pairs = itertools.product(reads, writes)
        return [dataclasses.replace(self, in_layout=a, out_layout=b) for a, b in pairs]

    def key_fields(self) -> dict[str, Any]:
        """Layouts are named where they are not NHWC, so that older keys stay as they are."""
        fields = super().key_fields()
        if not self.border_bias:
            del fields["border_bias"]
        for name in ("in_layout", "out_layout"):
            if fields[name] == NHWC:
                del fields[name]
        return fields

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        if not self.border_bias:
            return super().constants
        rows, columns = border_classes(self)
        shape = (rows.count, columns.count, self.k)
        return tuple(
            dataclasses.replace(spec, shape=shape) if spec.name == "bias" else spec
            for spec in super().constants
        )

    @property
    def pads_with_zero(self) -> bool:
        return any(self.padding) and not self.zero_point_border

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        given = {
            spec.name: to_nhwc(array, spec.layout)
            for array, spec in zip(activations, self.inputs, strict=True)
        }
        x, residual, rows = given["x"], given.get("residual"), given.get("row_scale")
        bias, scalars = np.asarray(constants["bias"]), np.asarray(constants["scalars"])
        zero_point = int(constants.get("x_zero_point", 0))
        scale, float_bias = constants.get("scale"), constants.get("float_bias")
        if self.epilogue.dynamic:
            zero_point = int(given["x_zero_point"][0])
            scale = np.asarray(scale, np.float32) * given["x_scale"]
        rows_of, columns_of = (one.places() for one in border_classes(self))
        sums = ConvolutionSums(self, x, np.asarray(constants["weight"]), zero_point)
        factor = constants.get("factor")
        y = np.empty((self.n, self.p, self.q, self.k), element(self.epilogue.out_dtype).dtype)

        def compute(tile: Tile) -> None:
            y[tile.box] = apply_epilogue(
                self.epilogue,
                sums.of(tile),
                bias[rows_of[tile.rows, None], columns_of[tile.columns], tile.channels]
                if self.border_bias
                else bias[tile.channels],
                None if scale is None else scale[tile.channels],
                scalars,
                None if residual is None else residual[tile.box],
                constants.get("table"),
                FloatTerms(
                    None if rows is None else rows[tile.images, None, None, None],
                    None if float_bias is None else float_bias[tile.channels],
                    None if factor is None else factor[tile.channels],
                    constants.get("factor_bounds"),
                ),
            )

        in_threads(compute, sums.tiles(threads), threads)
        return (from_nhwc(y, self.out_layout, self.epilogue.out_dtype),)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        activations, constants = super().random_case(rng)
        if self.border_bias:
            (spec,) = (spec for spec in self.constants if spec.name == "bias")
            most = max(1, int(np.abs(constants["bias"]).max()))
            borders = rng.integers(-most, most + 1, spec.shape, np.int32)
            constants["bias"] = constants["bias"] + borders
        return activations, constants

    def __str__(self) -> str:
        kind = f"{self.r}x{self.s}"
        text = f"N{self.n} {kind} {self.h}x{self.w}x{self.c}->{self.k}"
        if self.stride != (1, 1):
            text += f" s{self.stride[0]}"
        if self.dilation != (1, 1):
            text += f" d{self.dilation[0]}"
        if self.groups != 1:
            text += f" g{self.groups}"
        if self.border_bias:
            text += " bordered"
        if self.in_layout != self.out_layout:
            text += f" {self.in_layout}>{self.out_layout}"
        elif self.in_layout != NHWC:
            text += f" {self.in_layout}"
        return text if self.sparsity is None else f"{text} {self.sparsity}"
