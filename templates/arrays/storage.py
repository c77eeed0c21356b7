"""How arrays lie in memory: whole bytes, or for int4 and uint4 two values a byte.

A workload's shapes count values. Four-bit values are stored along the last axis, that of the
channels, the even one in the low nibble of its byte (ONNX's order); a row of an odd number of
values ends in a zero nibble, so that every row starts at a byte. In numpy unpacked values are
int8 or uint8.
"""

from __future__ import annotations

import math

import numpy as np

from autoq.templates.arrays.element import ELEMENTS, element

BYTE_DTYPES = {row.name: row.unpacked for row in ELEMENTS.values() if row.packed}
"""For each 4-bit dtype the one that holds the same numbers one a byte."""

Array = tuple[tuple[int, ...], str]
"""Shape and dtype."""


def is_four_bit(dtype: str | None) -> bool:
    """Whether two values of a dtype share a byte."""
    return dtype in BYTE_DTYPES


def value_dtype(dtype: str) -> str:
    """The numpy dtype that holds unpacked values of a dtype."""
    return BYTE_DTYPES.get(dtype, dtype)


def stored(shape: tuple[int, ...], dtype: str) -> Array:
    """Shape and dtype of an array as kernels take it: uint8 `[..., ceil(c / 2)]` for 4 bits."""
    if not is_four_bit(dtype):
        return shape, dtype
    return (*shape[:-1], (shape[-1] + 1) // 2), "uint8"


def moved_as(dtype: str) -> str:
    """The dtype as which CUDA kernels move values: of narrow floats the bits, as integers.

    Types of their own would make the compiler read their headers, which take longer than a kernel.
    """
    found = element(dtype)
    return f"uint{found.bits}" if found.floating and found.bits < 32 else dtype


def stored_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of memory that an array takes."""
    length, held = stored(shape, dtype)
    return math.prod(length) * element(held).bytes


def pack_nibbles(values: np.ndarray) -> np.ndarray:
    """uint8 `[..., ceil(c / 2)]` from int8 or uint8 values `[..., c]`.

    Raises ValueError for values outside [-8, 7], or [0, 15] if unsigned.
    """
    least, most = (0, 15) if values.dtype == np.uint8 else (-8, 7)
    if values.size and not least <= int(values.min()) <= int(values.max()) <= most:
        raise ValueError(f"four-bit values from {values.min()} to {values.max()}; "
                         f"{least} to {most} can be stored")  # fmt: skip
    nibbles = values.view(np.uint8) & 15
    if nibbles.shape[-1] % 2:
        nibbles = np.pad(nibbles, [(0, 0)] * (nibbles.ndim - 1) + [(0, 1)])
    return np.ascontiguousarray(nibbles[..., 0::2] | nibbles[..., 1::2] << 4)


def unpack_nibbles(packed: np.ndarray, length: int, dtype: str) -> np.ndarray:
    """Values `[..., length]`, int8 for "int4" and uint8 for "uint4", from uint8 `[..., bytes]`."""
    pairs = np.stack([packed & 15, packed >> 4], axis=-1)
    nibbles = pairs.reshape(*packed.shape[:-1], 2 * packed.shape[-1])[..., :length]
    if dtype == "int4":
        return (nibbles ^ 8).astype(np.int8) - np.int8(8)
    return np.ascontiguousarray(nibbles)


def to_stored(values: np.ndarray, dtype: str) -> np.ndarray:
    """An array of values as kernels take it."""
    return pack_nibbles(values) if is_four_bit(dtype) else values
