"""Bias for every kind of image border, so that padding means the zero point exactly.

A quantised image is padded with its zero point z, and `sum((x - z) * w)` over the taps inside the
image equals `sum(x * w) - z * sum(w inside)`. Kernels pad with 0, so the second term depends on
which taps fall inside: it is one constant for each class of rows times each class of columns. A
bias that differs by these classes itself is added there (`Conv2d.border_bias`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autoq.templates.borders.classes import border_classes

if TYPE_CHECKING:
    from autoq.templates.operators.conv2d import Conv2d


def border_bias(
    workload: Conv2d, weight: np.ndarray, bias: np.ndarray, x_zero_point: int
) -> np.ndarray:
    """Bias table int32 [row classes, column classes, k] for kernels that pad with 0.

    weight: int8 [k, r, s, c / groups]; bias: int32 [k], or such a table; x_zero_point: of the
    activations as the kernel reads them.
    """
    sums = weight.sum(axis=3, dtype=np.int64)
    in_rows, in_columns = (
        axis.inside(classes.representatives())
        for axis, classes in zip(workload.axes, border_classes(workload), strict=True)
    )
    if not workload.zero_point_border:
        in_rows[:], in_columns[:] = True, True
    inside = np.einsum("ar,bs,krs->abk", in_rows.astype(np.int64), in_columns, sums)
    return (bias.astype(np.int64) - x_zero_point * inside).astype(np.int32)


def bias_rows(workload: Conv2d) -> int:
    """Rows of the bias table, one for each class of rows and of columns."""
    rows, columns = border_classes(workload)
    return rows.count * columns.count
