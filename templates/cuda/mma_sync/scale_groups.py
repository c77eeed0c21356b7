"""Scales of groups along k: the sums of a group become floats that are added to those before.

The exact sums of integers of a group end with its last step. They are scaled and begin again from
0, so that a thread holds its accumulators twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm.script import tirx as T

from autoq.templates.border import group_biases
from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.mma_sync.pack import channel_of_row, pack_channels
from autoq.templates.cuda.mma_sync.tiling import MmaSyncTiling

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
_TAKE = r"""
__device__ __forceinline__ void take_sums_@(unsigned* acc, const float* sums) {
  #pragma unroll
  for (int i = 0; i < COUNT; ++i) acc[i] = __float_as_uint(sums[i]);
}
"""


def add_group(plan: Any) -> DeviceFunction:
    """add_group(sums, accumulators, scale, start, pair): both at a group's columns of the warp.

    pair: which two of every eight columns are the thread's.
    """
    config = plan.config
    numbers = {
        "COLUMNS": config.WARP_COL_TILES,
        "ROWS": config.WARP_ROW_TILES,
        "SHIFT": plan.accumulator_shift,
    }
    source = _ADD
    for name, number in numbers.items():
        source = source.replace(name, str(number))
    return device_function("add_group", source)


def take_sums(plan: Any) -> DeviceFunction:
    """take_sums(accumulators, sums): the sums' bits, as the epilogue reads them."""
    return device_function("take_sums", _TAKE.replace("COUNT", str(plan.config.accumulators)))


@T.inline
def end_group(plan, sums, accumulator, arrays, n, step, thread):
    """Behind a step: where it is a group's last one, its sums are scaled."""
    if (step + 1) % plan.group_steps == 0:
        group = T.meta_var(n * plan.conv.scale_groups + step // plan.group_steps)
        first = T.meta_var(group * plan.config.block_n + thread.warp_column * plan.config.warp_n)
        T.cuda.func_call(
            plan.add_group.name,
            sums.ptr_to([0]),
            accumulator.ptr_to([0]),
            arrays.scale.ptr_to([first]),
            arrays.bias.ptr_to([first]),
            thread.lane % 4,
            source_code=plan.add_group.source,
        )


def by_columns(tiling: MmaSyncTiling, values: np.ndarray) -> np.ndarray:
    """Numbers [groups, k] as tiles read them, [tiles_n, groups, block_n], in the tiles' columns."""
    config = tiling.config
    tiles = pack_channels(tiling, values).reshape(len(values), tiling.tiles_n, config.block_n)
    return np.ascontiguousarray(tiles[..., channel_of_row(config)].transpose(1, 0, 2))


def group_starts(
    tiling: MmaSyncTiling, weight: np.ndarray, bias: np.ndarray, zero_point: int
) -> np.ndarray:
    """What the sums of every group begin with, int32, by columns."""
    return by_columns(tiling, group_biases(tiling.conv, weight, bias, zero_point))
