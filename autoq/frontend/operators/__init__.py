"""Importers by operator family; importing this package fills `autoq.frontend.registry`."""

from autoq.frontend.operators import (
    arithmetic,
    convolution,
    dynamic,
    layout,
    linear,
    normalisation,
    pooling,
    qdq,
    qlinear,
)

__all__ = [
    "arithmetic",
    "convolution",
    "dynamic",
    "layout",
    "linear",
    "normalisation",
    "pooling",
    "qdq",
    "qlinear",
]
