"""Random full-range inputs and constants of a workload, and its arrays as kernels take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from autoq.templates.storage import to_stored
from autoq.templates.workload import Arrays, Workload


def random_case(workload: Workload, seed: int) -> tuple[Arrays, dict[str, Any]]:
    """`Workload.random_case` of a seed."""
    return workload.random_case(np.random.default_rng(seed))


def stored_activations(workload: Workload, values: Arrays) -> Arrays:
    """Activations as a kernel takes them: two 4-bit values a byte."""
    pairs = zip(values, workload.inputs, strict=True)
    return tuple(to_stored(array, spec.dtype) for array, spec in pairs)


def stored_outputs(workload: Workload, values: Arrays) -> Arrays:
    """Outputs as a kernel gives them: two 4-bit values a byte."""
    pairs = zip(values, workload.outputs, strict=True)
    return tuple(to_stored(array, spec.dtype) for array, spec in pairs)
