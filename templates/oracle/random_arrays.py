"""Random arrays of every dtype, and quantisation that suits them."""

from __future__ import annotations

import math

import numpy as np

from autoq.templates.arrays.element import INTEGER_RANGE, element
from autoq.templates.arrays.storage import is_four_bit, stored, unpack_nibbles
from autoq.templates.arrays.tensor_spec import TensorSpec


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Values of the whole range of an integer dtype, or normal floats; 4-bit ones unpacked."""
    if element(dtype).floating:
        return rng.standard_normal(shape, np.float32).astype(element(dtype).dtype, copy=False)
    if is_four_bit(dtype):
        (*_, row), _ = stored(shape, dtype)
        packed = np.frombuffer(rng.bytes(math.prod(shape[:-1]) * row), np.uint8)
        return unpack_nibbles(packed.reshape(*shape[:-1], row), shape[-1], dtype)
    if dtype in (*INTEGER_RANGE, "int16", "uint16"):
        # Random bytes: several times faster than bounded integers, and activations are large.
        count = math.prod(shape) * element(dtype).bytes
        return np.frombuffer(rng.bytes(count), dtype).reshape(shape).copy()
    return rng.integers(-1000, 1000, shape, dtype)


def random_inputs(
    rng: np.random.Generator, specs: tuple[TensorSpec, ...]
) -> tuple[np.ndarray, ...]:
    """A random array for each spec."""
    return tuple(random_array(rng, spec.shape, spec.dtype) for spec in specs)


def bounds(dtype: str, zero_point: int) -> tuple[float, float, float]:
    """Clamp bounds before the zero point is added, and the zero point; none for floats."""
    if dtype not in INTEGER_RANGE:
        return -math.inf, math.inf, 0.0
    least, most = INTEGER_RANGE[dtype]
    return float(least - zero_point), float(most - zero_point), float(zero_point)
