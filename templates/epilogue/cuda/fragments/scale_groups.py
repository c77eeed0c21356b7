"""CUDA source for scales of groups along k: sums of a group become floats, added to those before.

The exact sums of integers of a group end with its last step. They are scaled and begin again from
0, so that a thread holds its accumulators twice. Accumulators are those of fragments of 8 columns
and two rows, as mma.sync and wgmma leave them.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.cuda.device.functions import DeviceFunction, device_function

_ADD = r"""
__device__ __forceinline__ void add_group_@(float* sums, unsigned* acc, const void* scale,
                                            const void* start, int pair) {
  #pragma unroll
  for (int j = 0; j < COLUMNS; ++j) {
    const float2 s = __ldg(reinterpret_cast<const float2*>(scale) + j * 4 + pair);
    const int2 b = __ldg(reinterpret_cast<const int2*>(start) + j * 4 + pair);
    #pragma unroll
    for (int i = 0; i < 2 * ROWS; ++i) {
      const int at = (i / 2 * COLUMNS + j) * 4 + i % 2 * 2;
      const float left = __int2float_rn(((int)acc[at] >> SHIFT) + b.x);
      const float right = __int2float_rn(((int)acc[at + 1] >> SHIFT) + b.y);
      sums[at] = __fadd_rn(sums[at], __fmul_rn(left, s.x));
      sums[at + 1] = __fadd_rn(sums[at + 1], __fmul_rn(right, s.y));
      acc[at] = acc[at + 1] = 0u;
    }
  }
}
"""


def add_group(row_pairs: int, columns: int, shift: int = 0) -> DeviceFunction:
    """add_group(sums, accumulators, scale, start, pair): both at the first of a group's columns.

    row_pairs: pairs of rows of a thread; columns: its eights of columns; shift: bits by which
    accumulators are too large; pair: which two of every eight columns are the thread's.
    """
    numbers = {"COLUMNS": columns, "ROWS": row_pairs, "SHIFT": shift}
    source = _ADD
    for name, number in numbers.items():
        source = source.replace(name, str(number))
    return device_function("add_group", source)


def by_columns(padded: np.ndarray, block_n: int, order: np.ndarray) -> np.ndarray:
    """Numbers [groups, padded k] as tiles read them, [n tiles, groups, block_n].

    order: the channel of a tile that each of its columns holds.
    """
    tiles = padded.reshape(len(padded), -1, block_n)[..., order]
    return np.ascontiguousarray(tiles.transpose(1, 0, 2))
