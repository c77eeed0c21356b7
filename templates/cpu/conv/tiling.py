"""Numbers derived from a convolution, a configuration and a dot step; shared by all its parts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from autoq.templates.cpu.conv.config import ConvConfig
from autoq.templates.cpu.dot import Dot
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm


def normalised(workload: Conv2d | Gemm) -> Conv2d:
    """The workload as a convolution; one that never mixes pixels becomes n * h * w rows of one.

    A weight of int4 becomes int8.
    """
    conv = workload.as_conv2d() if isinstance(workload, Gemm) else workload
    if conv.weight_dtype == "int4":
        conv = dataclasses.replace(conv, weight_dtype="int8")
    pointwise = (conv.r, conv.s) == (1, 1) and conv.stride == (1, 1) and not any(conv.padding)
    if not pointwise:
        return conv
    return dataclasses.replace(conv, n=1, h=conv.n * conv.h * conv.w, w=1)


@dataclass(frozen=True)
class ConvTiling:
    """Tiles, strides and packed shapes of one convolution kernel.

    The reduction runs over filter rows, filter columns and `steps` of `dot.depth` elements. When
    the window of a filter row is contiguous in memory (`joint`: one group, no dilation), columns
    and channels are one axis, so that 3 input channels waste almost nothing.
    """

    conv: Conv2d
    config: ConvConfig
    dot: Dot

    @cached_property
    def joint(self) -> bool:
        one_group = self.conv.groups == 1 and not self.dot.depthwise
        return one_group and (self.conv.s == 1 or self.conv.dilation[1] == 1)

    @cached_property
    def groups(self) -> int:
        """Groups that the channel tiles are divided into."""
        return 1 if self.dot.depthwise else self.conv.groups

    @cached_property
    def filters(self) -> int:
        """Output channels of a group."""
        return self.conv.k // self.groups

    @cached_property
    def reduction(self) -> tuple[int, int, int]:
        """Filter rows, filter columns, elements of the innermost reduction axis (unpadded)."""
        channels = self.conv.c // self.conv.groups
        if self.joint:
            return self.conv.r, 1, self.conv.s * channels
        return self.conv.r, self.conv.s, channels

    @cached_property
    def steps(self) -> int:
        """Dot steps of the innermost reduction axis."""
        return -(-self.reduction[2] // self.dot.depth)

    @cached_property
    def group_elements(self) -> int:
        """Elements of one pixel of one group as the tile reads it."""
        channels = self.conv.c // self.conv.groups
        return channels if self.joint else -(-channels // self.dot.depth) * self.dot.depth

    @cached_property
    def copies(self) -> bool:
        """Whether a task first copies its input rows into a padded scratch buffer.

        It does for padding, to make signed bytes unsigned, to widen bytes, and where a step would
        read past a pixel's channels.
        """
        ragged = self.reduction[2] % self.dot.depth != 0
        changed = self.dot.signed_shift != 0 or bool(self.dot.operand)
        return any(self.conv.padding) or changed or ragged or self.lane_tail

    @cached_property
    def subsampled(self) -> bool:
        """Whether the copy takes only the pixels that a strided 1x1 filter reads."""
        conv = self.conv
        strided = (conv.r, conv.s) == (1, 1) and conv.stride != (1, 1)
        return self.copies and strided and not any(conv.padding)

    @cached_property
    def lane_tail(self) -> bool:
        """Whether a depthwise vector would read past the last channel."""
        return self.dot.depthwise and self.conv.k < self.dot.lanes

    @cached_property
    def pixel_elements(self) -> int:
        """Distance of horizontally adjacent input pixels, in elements."""
        return self.conv.groups * self.group_elements

    @cached_property
    def columns(self) -> int:
        """Input columns that the output reads, padding included."""
        conv = self.conv
        if self.subsampled:
            return conv.q
        return (conv.q - 1) * conv.stride[1] + (conv.s - 1) * conv.dilation[1] + 1

    @cached_property
    def row_elements(self) -> int:
        """Distance of vertically adjacent input pixels, in elements."""
        return (self.columns if self.copies else self.conv.w) * self.pixel_elements

    @cached_property
    def row_step(self) -> int:
        """Distance of the inputs of vertically adjacent outputs, in elements."""
        return (1 if self.subsampled else self.conv.stride[0]) * self.row_elements

    @cached_property
    def column_step(self) -> int:
        """Distance of the inputs of horizontally adjacent outputs, in elements."""
        return (1 if self.subsampled else self.conv.stride[1]) * self.pixel_elements

    @cached_property
    def scratch_rows(self) -> int:
        """Input rows that a task copies."""
        conv = self.conv
        if self.subsampled:
            return self.config.rows
        return (self.config.rows - 1) * conv.stride[0] + (conv.r - 1) * conv.dilation[0] + 1

    @cached_property
    def scratch_elements(self) -> int:
        """Size of the scratch buffer; its slack takes the reads of a last, ragged step."""
        return self.scratch_rows * self.row_elements + 64

    @cached_property
    def channel_tiles(self) -> int:
        """Channel tiles of one group."""
        return -(-self.filters // (self.dot.lanes * self.config.vectors))

    @cached_property
    def tiles_per_task(self) -> int:
        return -(-self.groups * self.channel_tiles // self.config.channel_tasks)

    @cached_property
    def channel_shares(self) -> int:
        """Channel tasks that have work: sharing 6 tiles among 4 tasks takes 3 of them."""
        return -(-self.groups * self.channel_tiles // self.tiles_per_task)

    @cached_property
    def row_tasks(self) -> int:
        return -(-self.conv.p // self.config.rows)

    @cached_property
    def tasks(self) -> int:
        """Parallel tasks: images times row blocks times channel shares."""
        return self.conv.n * self.row_tasks * self.channel_shares

    @cached_property
    def channel_starts(self) -> np.ndarray:
        """First output channel of each vector in its group, int64 [channel_tiles, vectors].

        The vectors of a ragged end move back over channels that others compute too, so that
        every vector is full wherever a group has `lanes` channels.
        """
        count = self.channel_tiles * self.config.vectors
        starts = np.minimum(np.arange(count) * self.dot.lanes, self.filters - self.dot.lanes)
        return np.maximum(starts, 0).reshape(self.channel_tiles, self.config.vectors)

    @cached_property
    def channels_of_lanes(self) -> np.ndarray:
        """Output channel in its group of every lane, int64 [channel_tiles, vectors, lanes]."""
        channels = self.channel_starts[..., None] + np.arange(self.dot.lanes)
        return np.minimum(channels, self.filters - 1)

    @cached_property
    def weight_shape(self) -> tuple[int, ...]:
        """Packed weight: [groups * channel_tiles, rows, columns, steps, tile elements]."""
        rows, columns, _ = self.reduction
        tile = self.config.vectors * self.dot.weight_lanes
        return (self.groups * self.channel_tiles, rows, columns, self.steps, tile)

    @cached_property
    def scale_groups(self) -> int:
        """Groups of the reduction that have scales of their own; 1 where there are none."""
        return self.conv.scale_groups

    @cached_property
    def lanes_shape(self) -> tuple[int, int]:
        """Packed bias and scale: [groups * channel_tiles, lanes of a tile]."""
        return (self.groups * self.channel_tiles, self.config.vectors * self.dot.lanes)

    @cached_property
    def scratch_dtype(self) -> str:
        return self.dot.operand or ("uint8" if self.dot.signed_shift else self.conv.in_dtype)

    @cached_property
    def weight_dtype(self) -> str:
        """dtype of the packed weight."""
        return self.dot.operand or self.conv.weight_dtype
