"""Importers by operator family; importing this package fills `autoq.frontend.registry`."""

from autoq.frontend.operators import (
    arithmetic,
    conditions,
    convolution,
    dynamic,
    expansion,
    layout,
    linear,
    normalisation,
    pooling,
    qdq,
    qlinear,
    reductions,
    selection,
)

__all__ = [
    "arithmetic",
    "conditions",
    "convolution",
    "dynamic",
    "expansion",
    "layout",
    "linear",
    "normalisation",
    "pooling",
    "qdq",
    "qlinear",
    "reductions",
    "selection",
]
