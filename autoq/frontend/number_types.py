"""Types of numbers that ONNX has and the graph computes in another.

Floats of 16 bits are computed in float32, int64 in int32, and a bool is the float32 number 0 or 1.
Inputs and outputs of the model keep their own type; a Cast stands between. What a model of 16-bit
floats casts to float64, as torch's older exporter has its normalisations, is computed in float32.
"""

from __future__ import annotations

import numpy as np
import onnx

HALVES = ("float16", "bfloat16")
"""Floats of 16 bits."""

DOUBLE = "float64"

COMPUTED_AS = {"float16": "float32", "bfloat16": "float32", "int64": "int32", "bool": "float32"}
"""What the graph computes each such type in."""

LARGEST_INT = 2**31 - 1

_CONDITIONS = (
    "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor", "Not", "IsNaN",
    "IsInf",
)  # fmt: skip
_INDICES = ("ArgMax", "ArgMin", "TopK")
_DATA_INPUT = {"Where": 1, "OneHot": 2}
"""The input whose type the result has, where that is not the first."""

_OF_CHOSEN_TYPE = ("Cast", "CastLike")


def result_type(
    node: onnx.NodeProto, computed: str, given: list[str | None], to: str | None
) -> str | None:
    """The ONNX type of an output that the graph computes in `computed`, None for that one itself.

    given: such types of the node's inputs, None for others; to: what a Cast casts to.
    """
    if node.op_type in _OF_CHOSEN_TYPE:
        if to == DOUBLE:
            return to
        return to if to in COMPUTED_AS and COMPUTED_AS[to] == computed else None
    if node.op_type == "Pow":
        given = given[:1]  # exponents have types of their own
    place = _DATA_INPUT.get(node.op_type, 0)
    of_data = given[place] if place < len(given) else None
    if computed == "float32":
        half = next((dtype for dtype in given if dtype in HALVES), None)
        if node.op_type in _CONDITIONS:
            return "bool"
        if DOUBLE in given:
            return DOUBLE
        return half or ("bool" if of_data == "bool" else None)
    if computed == "int32" and (node.op_type in _INDICES or of_data == "int64"):
        return "int64"
    return None


def computed_constant(value: np.ndarray, doubles: bool = False) -> np.ndarray:
    """A constant in the type that the graph computes it in; doubles: float32 for float64.

    Raises ValueError for integers beyond 32 bits, and for types that the graph lacks.
    """
    if value.dtype == np.float64:
        if doubles:
            return value.astype(np.float32)
        raise ValueError("a constant of float64; export the model in float32")
    dtype = COMPUTED_AS.get(value.dtype.name, value.dtype.name)
    if value.dtype == np.int64 and value.size and not _farthest(value) >= -LARGEST_INT:
        raise ValueError("a constant of integers beyond 32 bits; integers are computed in 32 bits")
    return value.astype(dtype)


def _farthest(value: np.ndarray) -> int:
    """The number that is farthest from 0, negated where it is positive."""
    return min(int(value.min()), -int(value.max()))
