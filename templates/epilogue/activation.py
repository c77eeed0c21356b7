"""Functions behind the bias of a product whose outputs are floats, and their numpy meaning."""

from __future__ import annotations

import math

import numpy as np

ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu")
"""Their names: gelu is by the error function, gelu_tanh its usual approximation."""


LEAST_FACTOR = {"gelu": -16.0, "gelu_tanh": -16.0, "silu": -128.0}
"""Functions that are v times a share, and from where on it is 0 in float32. A factor of no less
has the same product there, and 0 of minus infinity, the limit, where v times 0 is NaN."""


def activated(v: np.ndarray, activation: str) -> np.ndarray:
    """An activation of float32 values, float32; NaN stays NaN."""
    if activation == "none":
        return v
    if activation == "relu":
        return np.maximum(v, np.float32(0))
    factor = np.maximum(v, np.float32(LEAST_FACTOR[activation]))
    if activation == "gelu":
        from scipy.special import erf

        return (0.5 * factor * (1 + erf(v * np.float32(math.sqrt(0.5))))).astype(np.float32)
    if activation == "gelu_tanh":
        inner = np.float32(math.sqrt(2 / math.pi)) * (v + np.float32(0.044715) * v**3)
        return (0.5 * factor * (1 + np.tanh(inner))).astype(np.float32)
    return (factor / (1 + np.exp(-v))).astype(np.float32)
