"""What zero points add to the sums of groups of scales, which are scaled apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from autoq.templates.operators.conv2d import Conv2d


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
