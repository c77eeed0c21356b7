"""What the sums of a mixed-input product are multiplied by, a row of the weight."""

from __future__ import annotations

import numpy as np

from autoq.templates.operators.float_gemm import FloatGemm


def row_scale(work: FloatGemm, scale: np.ndarray) -> np.ndarray:
    """What a row's sums are multiplied by: its scale, or the largest of its groups' scales.

    A group's scale is kept as its share of that, which no 16-bit float is too narrow for.
    """
    if not work.group:
        return scale[:, 0]
    largest = np.abs(scale).max(axis=1)
    return np.where(largest > 0, largest, np.float32(1))
