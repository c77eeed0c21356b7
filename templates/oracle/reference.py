"""What a workload of one output computes, in numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.templates.workload import Constants, Workload


def reference(
    workload: Workload, activations: Sequence[np.ndarray], constants: Constants
) -> np.ndarray:
    """The only output of `Workload.reference`; raises ValueError where there are several."""
    (y,) = workload.reference(activations, constants)
    return y
