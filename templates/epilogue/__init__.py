"""The fused epilogue: what it says and its numpy meaning; its emitters are `cuda` and `cpu`."""

from autoq.templates.epilogue.activation import ACTIVATIONS, activated
from autoq.templates.epilogue.reference import (
    FloatTerms,
    apply_epilogue,
    clamp_numbers,
    requantize_numbers,
)
from autoq.templates.epilogue.specification import (
    FLOAT_OUTPUTS,
    SCALAR_NAMES,
    Epilogue,
    pack_scalars,
)

__all__ = [
    "ACTIVATIONS",
    "FLOAT_OUTPUTS",
    "SCALAR_NAMES",
    "Epilogue",
    "FloatTerms",
    "activated",
    "apply_epilogue",
    "clamp_numbers",
    "pack_scalars",
    "requantize_numbers",
]
