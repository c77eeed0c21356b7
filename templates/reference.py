"""What a workload of one output computes, in numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.templates.workload import Operands, Workload


def reference(
    workload: Workload, activations: Sequence[np.ndarray], operands: Operands
) -> np.ndarray:
    """The only output of `Workload.reference`; raises ValueError where there are several."""
    (y,) = workload.reference(activations, operands)
    return y
