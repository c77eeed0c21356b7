"""What a kernel that picks multiplies: rows of a matrix, or what a filter sees of images.

A convolution's weight [k, r, s, c] is that of a product with r * s * c, whose rows of x are pixels
of y; channels of one tap are neighbours, so that a stage holds channels of one tap alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.composed.pruned_product import PrunedProduct, pruned_product
from autoq.templates.cuda.device.launch.mapped import Mapped
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.device.memory.swizzle import ROW_BYTES as SWIZZLES
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import (
    ENCODE_IM2COL,
    ENCODE_TILED,
    im2col_map,
    tiled_map,
)
from autoq.templates.cuda.device.turned.row_steps import LINE_BYTES, STAGE_K
from autoq.templates.cuda.device.wgmma_workloads import im2col_reaches, supports_im2col
from autoq.templates.cuda.pruned.picked.steps import NO_ROW
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import IN_TILES
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_UNIT_BYTES = 16
_LEAST_ROW = 32
"""Bytes of a row of a stage that one instruction takes."""

Picked = Gemm | FloatGemm | Conv2d | FloatConv2d
"""Workloads that are picked from."""


@dataclass(frozen=True)
class Operand:
    """A product by a tile-wise weight, and the images whose pixels are its rows, if any."""

    view: PrunedProduct
    images: Conv2d | FloatConv2d | None = None

    @property
    def size(self) -> int:
        """Bytes of a value of x."""
        return self.view.value.bytes

    def has_boxes(self, target: Target) -> bool:
        """Whether TMA can load boxes of x."""
        images = self.images
        if images is None:
            return True
        if isinstance(images, Conv2d):
            return supports_im2col(replace(images, sparsity=None), target)
        return im2col_reaches(images) and indexable(images.inputs[0].shape)

    @property
    def channels(self) -> int:
        """Neighbouring k."""
        return self.view.k if self.images is None else self.images.c

    @property
    def taps(self) -> int:
        return self.view.k // self.channels

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a stage of x, which a swizzle holds."""
        held = [row for row in SWIZZLES if row >= _LEAST_ROW]
        return next((row for row in held if row >= self.channels * self.size), held[-1])

    @property
    def stages_of_tap(self) -> int:
        return -(-self.channels * self.size // self.row_bytes)

    @property
    def stages(self) -> int:
        """Stages of all k."""
        return self.taps * self.stages_of_tap

    @property
    def _pitch(self) -> int:
        """Values between taps in stages."""
        return self.stages_of_tap * self.row_bytes // self.size

    def places(self, rows: np.ndarray) -> np.ndarray:
        """Where in all stages these k are."""
        return rows // self.channels * self._pitch + rows % self.channels

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Which k these places are, NO_ROW for none."""
        tap, channel = np.divmod(places, self._pitch)
        there = (places >= 0) & (channel < self.channels) & (tap < self.taps)
        return np.where(there, tap * self.channels + channel, NO_ROW)

    def constants(self, given: Constants) -> Constants:
        """The constants with the weight [n, k]."""
        weight = np.asarray(given["weight"])
        return {**given, "weight": weight.reshape(len(weight), -1)}

    def turned(self, pitch: int) -> TensorSpec:
        """x turned, of so many rows of y."""
        return TensorSpec("turned_x", (self.view.k, pitch), self.view.workload.inputs[0].dtype)

    def turned_map(self, pitch: int) -> Mapped:
        """x turned with its map, in boxes of a line of a stage's k."""
        x, box = self.turned(pitch), [LINE_BYTES // self.size, STAGE_K]
        swizzle = swizzle_mode(LINE_BYTES)
        tiled = tiled_map(x.dtype, [pitch, self.view.k], [pitch], box, swizzle)
        return Mapped(x, ENCODE_TILED, 2, tiled)

    def mapped(self, rows: int) -> Mapped:
        """x with its map, in boxes of so many rows."""
        values, swizzle = self.row_bytes // self.size, swizzle_mode(self.row_bytes)
        if self.images is None:
            x = self.view.workload.inputs[0]
            k, box = self.view.k, [values, rows]
            tiled = tiled_map(x.dtype, [k, self.view.m], [k], box, swizzle)
            return Mapped(x, ENCODE_TILED, 2, tiled)
        work = self.images
        arguments = im2col_map(
            work.inputs[0], (work.r, work.s), work.stride, work.padding, work.dilation, values,
            rows, swizzle,
        )  # fmt: skip
        return Mapped(work.inputs[0], ENCODE_IM2COL, 4, arguments)


def operand_of(workload: object) -> Operand | None:
    """The operand of a product or a convolution by a tile-wise weight; None for all others.

    Rows of x are whole units of 16 bytes. What lies outside images is 0.
    """
    images, product = None, workload
    if isinstance(workload, Conv2d | FloatConv2d):
        images, product = workload, _as_product(workload)
    view = pruned_product(product, *IN_TILES)
    if view is None or view.value.bytes == 4:
        return None
    found = Operand(view, images)
    return None if found.channels * found.size % _UNIT_BYTES else found


def _as_product(conv: Conv2d | FloatConv2d) -> Gemm | FloatGemm | None:
    """The product of the pixels that a filter sees by the filters; None of what im2col has not."""
    if conv.groups > 1:
        return None
    if isinstance(conv, FloatConv2d):
        return replace(conv.product, sparsity=conv.sparsity)
    if conv != conv.in_nhwc or conv.zero_point_border:
        return None
    return Gemm(
        conv.n * conv.p * conv.q, conv.k, conv.r * conv.s * conv.c, conv.in_dtype,
        conv.weight_dtype, conv.epilogue, conv.sparsity,
    )  # fmt: skip
