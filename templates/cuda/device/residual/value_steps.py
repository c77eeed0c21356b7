"""Lists of bands whose values lie as an instruction of the tensor cores takes them.

A step is 32 entries of a band of 16 rows of a, or columns of b: indices along k, 16 bits each, then
512 bytes, 16 of each lane, in which each entry's value stands in the row or column that has it and
zeros everywhere else. Such a list is five times as long as that of `bands.py`, and nobody who
multiplies with it needs to ask whose an entry is.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for
from autoq.templates.cuda.device.residual.bands import BAND, NOWHERE, STEP
from autoq.templates.cuda.device.residual.sides import Sides
from autoq.templates.tensor_spec import TensorSpec

INDEX_BYTES = 2 * STEP
"""Of a step's indices, before its values."""

VALUE_STEP_BYTES = INDEX_BYTES + BAND * STEP
"""Of a step."""

VALUE_STEPS = (
    f"constexpr int BAND = {BAND}, STEP = {STEP}, INDEX_BYTES = {INDEX_BYTES};\n"
    f"constexpr int STEP_BYTES = {VALUE_STEP_BYTES};\nconstexpr unsigned NOWHERE = {NOWHERE};\n"
    + r"""
// The byte of a step's values in which a band's vector has an entry: rows of a are a left factor,
// g and g + 8 of a lane's quarter, columns of b a right one, 2 g and 2 g + 1.
__device__ __forceinline__ int value_at(int entry, int vector, bool right) {
  const int eighth = entry / 8, lane = entry % 8 / 2, half = eighth / 2;
  const int quarter = right ? vector / 2 : vector % 8;
  const int word = right ? vector % 2 * 2 + half : half * 2 + vector / 8;
  return (quarter * 4 + lane) * 16 + word * 4 + eighth % 2 * 2 + entry % 2;
}
"""
)
"""value_at(entry, vector, right): where a value of a step lies behind its indices."""

LIST_VALUES = r"""
// Steps without entries, by so many threads.
__device__ __forceinline__ void clear_steps(
    unsigned char* steps, unsigned count, unsigned thread, unsigned threads) {
  constexpr unsigned VECTORS_OF_STEP = STEP_BYTES / 16, OF_INDEX = INDEX_BYTES / 16;
  for (unsigned at = thread; at < count * VECTORS_OF_STEP; at += threads) {
    const unsigned word = at % VECTORS_OF_STEP < OF_INDEX ? NOWHERE * 0x10001u : 0;
    reinterpret_cast<uint4*>(steps)[at] = make_uint4(word, word, word, word);
  }
}
__device__ __forceinline__ void list_value(
    unsigned char* steps, unsigned number, unsigned k, unsigned value, int vector, bool right) {
  unsigned char* step = steps + (size_t)(number / STEP) * STEP_BYTES;
  reinterpret_cast<unsigned short*>(step)[number % STEP] = (unsigned short)k;
  step[INDEX_BYTES + value_at(number % STEP, vector, right)] = (unsigned char)value;
}
"""
"""clear_steps and list_value, which puts an entry to its number among those of a band."""


def value_lists(sides: Sides) -> tuple[TensorSpec, ...]:
    """Of a and of b: steps, and of each band the first one and how many, as `Sides.lists`."""
    found = []
    for side, extent in (("a", sides.m), ("b", sides.n)):
        steps = sides.listed(extent) // STEP
        found.append(TensorSpec(f"steps_of_{side}", (steps, VALUE_STEP_BYTES), "int8"))
        found.append(TensorSpec(f"bands_of_{side}", (blocks_for(extent, BAND), 2), "int32"))
    return tuple(found)


def value_at(entry: np.ndarray, vector: np.ndarray, right: bool) -> np.ndarray:
    """The same in numpy."""
    eighth, lane = entry // 8, entry % 8 // 2
    quarter = vector // 2 if right else vector % 8
    half = eighth // 2
    word = vector % 2 * 2 + half if right else half * 2 + vector // 8
    return np.asarray((quarter * 4 + lane) * 16 + word * 4 + eighth % 2 * 2 + entry % 2)


def value_steps(values: np.ndarray, right: bool) -> tuple[np.ndarray, np.ndarray]:
    """Lists of what is not 0 of int8 [vectors, k], with k in order, and of each band its steps.

    Returns int8 [steps, VALUE_STEP_BYTES] and int32 [bands, 2]: the first step and how many.
    """
    bands = -(-len(values) // BAND)
    heads, steps = np.zeros((bands, 2), np.int32), []
    for band in range(bands):
        own = values[band * BAND : (band + 1) * BAND]
        k, vector = np.nonzero(own.T)
        count = -(-len(k) // STEP)
        heads[band] = len(steps), count
        for step in range(count):
            part = slice(step * STEP, (step + 1) * STEP)
            index = np.full(STEP, NOWHERE, np.uint16)
            index[: len(k[part])] = k[part]
            bytes_ = np.zeros(BAND * STEP, np.int8)
            at = value_at(np.arange(len(k[part])), vector[part], right)
            bytes_[at] = own[vector[part], k[part]]
            steps.append(np.concatenate([index.view(np.int8), bytes_]))
    empty = np.zeros((1, VALUE_STEP_BYTES), np.int8)
    return (np.stack(steps) if steps else empty), heads
