"""Classes of output rows and columns of a convolution that see the same taps inside the image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from autoq.templates.borders.filter_axis import FilterAxis

if TYPE_CHECKING:
    from autoq.templates.operators.conv2d import Conv2d


@dataclass(frozen=True)
class BorderClasses:
    """Classes of output rows (or columns).

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

    def representatives(self) -> np.ndarray:
        """A row of every class (clamped to the image where no row has it)."""
        index = np.arange(self.count)
        behind = self.extent - self.tail + (index - self.head - 1)
        return np.clip(np.where(index <= self.head, index, behind), 0, self.extent - 1)


def border_classes(workload: Conv2d) -> tuple[BorderClasses, BorderClasses]:
    """Row and column classes of a convolution; one class each without `zero_point_border`."""
    if not workload.zero_point_border:
        return BorderClasses(workload.p, 0, 0), BorderClasses(workload.q, 0, 0)
    rows, columns = workload.axes
    return _classes(rows, workload.p), _classes(columns, workload.q)


def by_class(image: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
    """The values of an image that is the same wherever rows and columns have the same classes.

    image: [..., p, q]; rows, columns: classes of its places, [p] and [q]. Gives [..., row classes,
    column classes], or None where the image differs within a class.
    """
    table = np.zeros((*image.shape[:-2], rows.max() + 1, columns.max() + 1), image.dtype)
    table[..., rows[:, None], columns] = image
    return table if np.array_equal(table[..., rows[:, None], columns], image) else None


def _classes(axis: FilterAxis, extent: int) -> BorderClasses:
    head = min(-(-axis.before // axis.stride), extent)
    last_inside = (axis.size - 1 + axis.before - axis.dilation * (axis.taps - 1)) // axis.stride
    tail = min(max(extent - 1 - last_inside, 0), extent - head)
    return BorderClasses(extent, head, tail)
