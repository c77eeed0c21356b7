"""What the row epilogues need to be compiled for the host, and the arrays they are run on."""

from __future__ import annotations

import itertools
import shutil

import numpy as np
import pytest

from autoq.templates.epilogue import Epilogue

COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs g++")

# CUDA's intrinsics with the meaning of the programming guide.
SHIMS = r"""
extern "C" {  // so few that <cmath> would be most of what is compiled
float fmaxf(float, float) noexcept;
float fminf(float, float) noexcept;
float rintf(float) noexcept;
}
#define __device__
#define __forceinline__ inline
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
static uint4 make_uint4(unsigned a, unsigned b, unsigned c, unsigned d) { return {a, b, c, d}; }
static uint2 make_uint2(unsigned a, unsigned b) { return {a, b}; }
template <class T> static T __ldg(const T* p) { T v; __builtin_memcpy(&v, p, sizeof v); return v; }
static float __fmul_rn(float a, float b) { volatile float r = a * b; return r; }
static float __fadd_rn(float a, float b) { volatile float r = a + b; return r; }
static float __fsub_rn(float a, float b) { volatile float r = a - b; return r; }
static float __int2float_rn(int a) { return (float)a; }
static unsigned __float_as_uint(float a) { unsigned r; __builtin_memcpy(&r, &a, 4); return r; }
static float __uint_as_float(unsigned a) { float r; __builtin_memcpy(&r, &a, 4); return r; }
static unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  unsigned long long both = ((unsigned long long)y << 32) | x; unsigned r = 0;
  for (int i = 0; i < 4; ++i) r |= (unsigned)((both >> (8 * ((s >> (4 * i)) & 7))) & 0xff) << 8 * i;
  return r;
}
"""


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy at a 16-byte boundary."""
    room = np.zeros(array.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 16
    view = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def random_table(epilogue: Epilogue, rng: np.random.Generator) -> np.ndarray | None:
    """The operand `table`, where the epilogue has one."""
    if not epilogue.table:
        return None
    return np.frombuffer(rng.bytes(256), epilogue.out_dtype)


def fragments(total: np.ndarray) -> np.ndarray:
    """Accumulators [2, channels] in the order of a thread's registers."""
    channels = total.shape[1]
    out = np.zeros(2 * channels, np.uint32)
    for row, channel in itertools.product(range(2), range(channels)):
        out[channel // 2 * 4 + row * 2 + channel % 2] = np.uint32(total[row, channel] & 0xFFFFFFFF)
    return out
