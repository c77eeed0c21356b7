"""A factor that takes the place of a division, where trying every input proves it exact.

Two tensors of bytes make 65,536 pairs. Where the quotient's rounding to an integer is that of one
product for all of them, a kernel multiplies.
"""

from __future__ import annotations

import numpy as np

from autoq.graph.ir import Fusion
from autoq.graph.primitive_numpy import PRIMITIVES

_ROUNDED_ALIKE = frozenset(
    ("dequantize", "Identity", "Relu", "Clip", "Neg", "Abs", "Add", "Sub", "Mul", "Min", "Max")
)
"""Primitives that numpy and kernels round alike."""
_NEIGHBOURS = 4
"""Float32 numbers on either side of the reciprocal that are tried."""


def exact_reciprocal(node: Fusion) -> np.float32 | None:
    """What to multiply by instead of dividing by the scale of the fusion's last quantisation.

    None where no such number is found, or where there are other inputs than one or two of bytes.
    """
    *primitives, last = node.primitives
    bytes_only = all(dtype in ("int8", "uint8") for dtype in node.input_dtypes)
    if last.op != "quantize" or node.constants or not bytes_only or len(node.inputs) > 2:
        return None
    if not all(primitive.op in _ROUNDED_ALIKE for primitive in primitives):
        return None
    every = [np.arange(256).astype(dtype) for dtype in node.input_dtypes]
    values = [array.reshape(-1, *(1,) * axis) for axis, array in enumerate(every)]
    for primitive in primitives:
        arguments = [values[index] for index in primitive.arguments]
        values.append(
            np.asarray(PRIMITIVES[primitive.op](primitive, *arguments)).astype(primitive.dtype)
        )
    x, scale = values[last.arguments[0]], np.float32(last["scale"])

    def rounded(quotient: np.ndarray) -> np.ndarray:
        return np.clip(np.rint(quotient), last["low"], last["high"])

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        wanted, above = rounded(x / scale), np.float32(1) / scale
        below = np.nextafter(above, np.float32(0))
        for _ in range(_NEIGHBOURS):
            for factor in (above, below):
                if np.isfinite(factor) and np.array_equal(rounded(x * factor), wanted):
                    return factor
            above, below = (np.nextafter(above, np.float32(np.inf)),
                            np.nextafter(below, np.float32(0)))  # fmt: skip
    return None
