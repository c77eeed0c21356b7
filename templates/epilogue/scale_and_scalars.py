"""Constants of kernels that need one scale and the epilogue's scalars, as they stand."""

from __future__ import annotations

from typing import Any

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.epilogue import SCALAR_NAMES
from autoq.templates.workload import Constants, Workload


def pack(workload: Workload, config: Any, constants: Constants) -> tuple[np.ndarray, ...]:
    """`Template.pack`: the scale, float32 [1], and the scalars, float32 [8]."""
    scale = np.asarray(constants["scale"], np.float32).reshape(1)
    return scale, np.ascontiguousarray(constants["scalars"], np.float32)


def packed(workload: Workload, config: Any) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    scalars = TensorSpec("scalars", (len(SCALAR_NAMES),), "float32")
    return TensorSpec("scale", (1,), "float32"), scalars
