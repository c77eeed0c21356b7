"""Bias for every kind of image border, so that padding means the zero point exactly.

A quantised image is padded with its zero point z, and `sum((x - z) * w)` over the taps inside the
image equals `sum(x * w) - z * sum(w inside)`. Kernels pad with 0, so the second term depends on
which taps fall inside: it is one constant for each class of rows times each class of columns. A
bias that differs by these classes itself is added there (`Conv2d.border_bias`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from autoq.templates.operators.conv2d import Conv2d


@dataclass(frozen=True)
class BorderClasses:
    """Classes of output rows (or columns) that see the same taps inside the image.

    Rows below `head` are classes 0..head-1, the last `tail` rows are head+1..head+tail, and all
    rows between share class `head`. `extent` is the number of rows.
    """

    extent: int
    head: int
    tail: int

    @property
    def count(self) -> int:
        return self.head + 1 + self.tail

    def of(self, position: int) -> int:
        """Class of a row; also what a kernel computes."""
        if position < self.head:
            return position
        return max(position - (self.extent - self.tail) + 1, 0) + self.head

    def places(self) -> np.ndarray:
        """The class of every row."""
        return np.array([self.of(position) for position in range(self.extent)])

    def representative(self, index: int) -> int:
        """A row of class `index` (clamped to the image where no row has it)."""
        row = index if index <= self.head else self.extent - self.tail + (index - self.head - 1)
        return min(max(row, 0), self.extent - 1)


def border_classes(workload: Conv2d) -> tuple[BorderClasses, BorderClasses]:
    """Row and column classes of a convolution; one class each without `zero_point_border`."""
    if not workload.zero_point_border:
        return BorderClasses(workload.p, 0, 0), BorderClasses(workload.q, 0, 0)
    top, left, _, _ = workload.padding
    rows = _classes(workload.p, workload.h, workload.r, workload.stride[0], top,
                    workload.dilation[0])  # fmt: skip
    columns = _classes(workload.q, workload.w, workload.s, workload.stride[1], left,
                       workload.dilation[1])  # fmt: skip
    return rows, columns


def _classes(
    extent: int, size: int, taps: int, stride: int, before: int, dilation: int
) -> BorderClasses:
    head = min(-(-before // stride), extent)
    last_inside = (size - 1 + before - dilation * (taps - 1)) // stride
    tail = min(max(extent - 1 - last_inside, 0), extent - head)
    return BorderClasses(extent, head, tail)


def _taps_inside(
    classes: BorderClasses, size: int, taps: int, stride: int, before: int, dilation: int
) -> np.ndarray:
    inside = np.zeros((classes.count, taps), bool)
    for index in range(classes.count):
        first = classes.representative(index) * stride - before
        for tap in range(taps):
            inside[index, tap] = 0 <= first + tap * dilation < size
    return inside


def border_bias(
    workload: Conv2d, weight: np.ndarray, bias: np.ndarray, x_zero_point: int
) -> np.ndarray:
    """Bias table int32 [row classes, column classes, k] for kernels that pad with 0.

    weight: int8 [k, r, s, c / groups]; bias: int32 [k], or such a table; x_zero_point: of the
    activations as the kernel reads them.
    """
    rows, columns = border_classes(workload)
    top, left, _, _ = workload.padding
    sums = weight.sum(axis=3, dtype=np.int64)
    in_rows = _taps_inside(rows, workload.h, workload.r, workload.stride[0], top,
                           workload.dilation[0])  # fmt: skip
    in_columns = _taps_inside(columns, workload.w, workload.s, workload.stride[1], left,
                              workload.dilation[1])  # fmt: skip
    if not workload.zero_point_border:
        in_rows[:], in_columns[:] = True, True
    inside = np.einsum("ar,bs,krs->abk", in_rows.astype(np.int64), in_columns, sums)
    return (bias.astype(np.int64) - x_zero_point * inside).astype(np.int32)


def bias_rows(workload: Conv2d) -> int:
    """Rows of the bias table, one for each class of rows and of columns."""
    rows, columns = border_classes(workload)
    return rows.count * columns.count


def group_biases(
    workload: Conv2d, weight: np.ndarray, bias: np.ndarray, zero_point: int
) -> np.ndarray:
    """What the sums of the groups of scales begin with, int32 [groups, k].

    weight: [k, ...]; bias: int32 [k], which belongs to the first group, or to all.
    """
    parts = weight.reshape(workload.k, workload.scale_groups, -1).sum(axis=2, dtype=np.int64).T
    start = -zero_point * parts
    start[0] += bias
    return start.astype(np.int32)
