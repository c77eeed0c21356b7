"""Softmax from bytes to bytes as CUDA: which scales it takes."""

from __future__ import annotations

import warnings

import pytest

from autoq.graph.ir import Primitive
from autoq.graph.lowering.cuda.byte_softmax import byte_softmax


def primitives(scale: float, taken: float) -> list[Primitive]:
    """A Softmax of the last of two axes between a scale of its input and one of its output."""
    quantised = {"zero_point": 0, "low": 0, "high": 255}
    steps = (
        ("dequantize", "float32", {"scale": scale, "zero_point": 128}),
        ("Softmax", "float32", {"axis": 1}),
        ("quantize", "uint8", {"scale": taken, **quantised}),
    )
    return [
        Primitive(op, (place,), dtype, tuple(sorted(attributes.items())))
        for place, (op, dtype, attributes) in enumerate(steps)
    ]


@pytest.mark.parametrize(
    "scale, taken, formula",
    [
        (0.05, 1 / 255, True),
        (1.0, 1 / 255, False),  # a byte's power is no float32
        (1e36, 1 / 255, False),  # as of a mask that adds float32's least number
        (0.05, 2.0**-14, False),
        (0.05, 1.5, False),
    ],
)
def test_scales_that_float32_holds_have_a_formula_and_none_warns(scale, taken, formula) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = byte_softmax("uint8", 2, primitives(scale, taken))
    assert (found is not None) == formula
