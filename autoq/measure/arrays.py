"""Random full-range inputs and constants of a workload, and its arrays as kernels take them.

Arrays are compared here, too, where every bit counts.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from autoq.templates.arrays.storage import to_stored
from autoq.templates.workload import Arrays, Workload

_MEMCMP = ctypes.CDLL(None).memcmp
_MEMCMP.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def same_bytes(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether two contiguous arrays hold the same bytes; numpy takes ten times as long to say so.

    Raises ValueError for an array that is no run of bytes.
    """
    if not (x.flags.c_contiguous and y.flags.c_contiguous):
        raise ValueError("an array that is no run of bytes")
    return x.nbytes == y.nbytes and not _MEMCMP(x.ctypes.data, y.ctypes.data, x.nbytes)


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
