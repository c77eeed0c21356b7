"""Scales of groups along k in the mma.sync kernel: `epilogue/cuda/fragments/scale_groups.py`."""

from __future__ import annotations

import numpy as np
from tvm.script import tirx as T

from autoq.templates.borders.group_biases import group_biases
from autoq.templates.cuda.mma_sync.pack import channel_of_row, pack_channels
from autoq.templates.cuda.mma_sync.tiling import MmaSyncTiling
from autoq.templates.epilogue.cuda.fragments.scale_groups import by_columns


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


def in_tiles(tiling: MmaSyncTiling, values: np.ndarray) -> np.ndarray:
    """Numbers [groups, k] as `by_columns` arranges them."""
    config = tiling.config
    return by_columns(pack_channels(tiling, values), config.block_n, channel_of_row(config))


def group_starts(
    tiling: MmaSyncTiling, weight: np.ndarray, bias: np.ndarray, zero_point: int
) -> np.ndarray:
    """What the sums of every group begin with, int32, by columns."""
    return in_tiles(tiling, group_biases(tiling.conv, weight, bias, zero_point))
