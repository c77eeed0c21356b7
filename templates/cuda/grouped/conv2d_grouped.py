"""Depthwise and grouped convolution on tensor cores: 16 channels share a block-diagonal product.

Where a group has at most 16 channels, mma.sync multiplies two taps of 16 channels by weights that
are zero outside the groups. The halo of a tile comes to shared memory once; a warp takes 16
channels of two strips of 8 columns and slides down their rows, so that a fragment is read once
for all filter rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.borders.classes import border_classes
from autoq.templates.cuda.device.launch.thread_kernel import call, indexable, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.grouped.cost import estimated_seconds, features, residence
from autoq.templates.cuda.grouped.pack import pack_weight, packed_shape
from autoq.templates.cuda.grouped.source import GROUPED_SOURCE
from autoq.templates.cuda.grouped.tiling import (
    STRIP_W,
    UNIT,
    GroupedConfig,
    GroupedTiling,
    group_units,
    narrow,
    part_rows,
    quads,
)
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue, split_pointers
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target
from autoq.templates.workload import Constants

# Output channels of a lane.
_VALUES = 4
# A part holds one row of the filter at least, and its loops are unrolled.
_MOST_COLUMNS = 16
_MOST_TAPS = 121
_WIDEST_GROUP = 64
_FILLED_TABLE = r"""
// The table in shared memory, which each warp fills itself: all of them write the same bytes.
__device__ __forceinline__ const unsigned char* filled_table(
    unsigned char* to, const unsigned char* table, int lane) {
  reinterpret_cast<uint2*>(to)[lane] = __ldg(reinterpret_cast<const uint2*>(table) + lane);
  __syncwarp();
  return to;
}
"""
_CHANNELS = "  const Channels own = channels(from, k);\n"
_CHANNELS_WITH_TABLE = """  Channels own = channels(from, k);
  own.table = filled_table(smem + AT, own.table, lane);
"""
# cp.async and mma.sync of 16 x 8 x 32 bytes.
_LEAST_COMPUTE_CAPABILITY = 80
_IMAGES = (1, 2, 4, 8)
_DOWN = (1, 2, 3, 4, 7, 8)
_ACROSS = (1, 2, 3, 4, 5, 7, 8, 14)
_ROWS = (1, 2, 4, 7, 8)
_STAGES = (1, 2, 3)
_BLOCKS_PER_UNIT = (None, 1, 2, 3, 4, 6, 8, 12)


def matches(workload: object, target: Target) -> bool:
    """Groups of 1, 2, 4, 8, 16, 32, 48 or 64 bytes in and as many channels out."""
    if not isinstance(workload, Conv2d) or target.kind != "cuda":
        return False
    width = workload.c // workload.groups
    return (
        target.compute_capability >= _LEAST_COMPUTE_CAPABILITY
        and workload.c == workload.k
        and workload.c % UNIT == 0
        and workload.groups > 1
        and (UNIT % width == 0 or width % UNIT == 0)
        and width <= _WIDEST_GROUP
        and workload.s <= _MOST_COLUMNS
        and workload.r * workload.s <= _MOST_TAPS
        and workload.in_dtype in ("int8", "uint8")
        and workload.weight_dtype == "int8"
        and workload.epilogue.of_convolutions
        and ThreadEpilogue(workload, _VALUES).supported
        and indexable(workload.x_shape, workload.weight_shape, workload.y_shape)
    )


def space(workload: Conv2d, target: Target) -> Space[GroupedConfig]:
    """Tiles that fit shared memory and registers and have no strip outside the output."""
    return _space(workload, target, _STAGES, _BLOCKS_PER_UNIT)


def _space(
    workload: Conv2d, target: Target, stages: Sequence[int], blocks: Sequence[int | None]
) -> Space[GroupedConfig]:
    units, whole = workload.c // UNIT, group_units(workload)
    knobs = {
        "channels": tuple(UNIT * u for u in range(whole, 17, whole) if units % u == 0),
        "rows": _ROWS,
        "images": _IMAGES,
        "strips_down": _DOWN,
        "strips_across": _ACROSS,
        "stages": stages,
        "blocks_per_unit": blocks,
        "registers_bounded": (False, True),
    }

    def tiling_of(config: GroupedConfig) -> GroupedTiling:
        return GroupedTiling(workload, config)

    def shared_memory_suffices(config: GroupedConfig) -> bool:
        """The halos of all stages and the outputs of a tile fit the target."""
        return tiling_of(config).smem_bytes <= target.smem_bytes

    def blocks_have_tiles_in_turn(config: GroupedConfig) -> bool:
        """Blocks fit a multiprocessor and take several tiles; only then is there a next stage."""
        if config.blocks_per_unit is None:
            return config.stages == 1
        tiling = tiling_of(config)
        fit = config.blocks_per_unit <= residence(tiling, target)
        return fit and tiling.runs(target.units) < tiling.tiles

    def warps_fill_the_schedulers(config: GroupedConfig) -> bool:
        """A block has 2 to 16 warps."""
        return 64 <= tiling_of(config).threads <= 512

    def registers_suffice(config: GroupedConfig) -> bool:
        """Every scheduler has registers for a quarter of the block's warps."""
        tiling = tiling_of(config)
        return tiling.scheduler_warps(target) >= ceil_div(tiling.threads, 32 * target.schedulers)

    def bounds_bind(config: GroupedConfig) -> bool:
        """Bounds say something: threads of so many blocks cannot all have the most registers."""
        if config.blocks_per_unit is None or not config.registers_bounded:
            return not config.registers_bounded
        together = config.blocks_per_unit * tiling_of(config).threads
        return together * target.thread_registers > target.register_file

    def strips_touch_the_output(config: GroupedConfig) -> bool:
        """No strip lies wholly outside; tiles of several images cover them."""
        tiling = tiling_of(config)
        if config.images > 1 and (tiling.tile_h < workload.p or tiling.tile_w < workload.q):
            return False
        down = tiling.tile_h - config.rows < workload.p and config.rows < 2 * workload.p
        across = tiling.tile_w - STRIP_W < workload.q
        return down and across and config.images < 2 * workload.n

    constraints = [
        strips_touch_the_output,
        warps_fill_the_schedulers,
        shared_memory_suffices,
        registers_suffice,
        blocks_have_tiles_in_turn,
        bounds_bind,
    ]
    return Space(GroupedConfig, knobs, constraints, lambda c: features(tiling_of(c), target))


def default(workload: Conv2d, target: Target) -> GroupedConfig:
    """The legal configuration of least estimated time, of those with as many blocks as fit.

    Their registers are bounded where that makes a difference, so that they do fit.
    """
    legal = space(workload, target)

    def in_turn(alone: GroupedConfig, stages: int) -> GroupedConfig:
        fit = residence(GroupedTiling(workload, replace(alone, stages=stages)), target)
        most = max((b for b in _BLOCKS_PER_UNIT if b is not None and b <= fit), default=None)
        free = replace(alone, stages=stages, blocks_per_unit=most)
        bounded = replace(free, registers_bounded=True)
        return bounded if bounded in legal else free

    tiles = list(_space(workload, target, (1,), (None,)).enumerate())
    others = (in_turn(tile, stages) for tile in tiles for stages in _STAGES)
    return min(
        (*tiles, *(config for config in others if config in legal)),
        key=lambda config: estimate(workload, config, target),
    )


def estimate(workload: Conv2d, config: GroupedConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(GroupedTiling(workload, config), target)


def build(workload: Conv2d, config: GroupedConfig, target: Target) -> PrimFunc:
    """The convolution; parameters x, residual?, weight, bias, scale?, scalars?, y.

    weight is as `pack` makes it; see `ThreadEpilogue` for the rest.
    """
    tiling = GroupedTiling(workload, config)
    epilogue = ThreadEpilogue(workload, _VALUES)
    runs = tiling.runs(target.units)
    functions = _functions(tiling, epilogue, runs)
    parameters = [
        TensorSpec("x", workload.x_shape, workload.in_dtype),
        *epilogue.more_inputs(),
        *packed(workload, config),
        TensorSpec("y", workload.y_shape, workload.epilogue.out_dtype),
    ]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((tiling.smem_bytes,), "uint8", scope="shared.dyn", align=128)
        x, weight, constants, y = split_pointers(epilogue, pointers)
        call(functions.function("convolve"), smem.data, x, weight, *constants, y, block, thread)

    together = config.blocks_per_unit if config.registers_bounded else None
    blocks = runs * tiling.slabs
    return thread_kernel(parameters, blocks, tiling.threads, target, body, together=together)


def _functions(tiling: GroupedTiling, epilogue: ThreadEpilogue, runs: int) -> DeviceNamespace:
    conv, config = tiling.workload, tiling.config
    rows, columns = border_classes(conv)
    source = GROUPED_SOURCE
    for name, k in (("PRODUCT_OF_TWO_TAPS", 32), ("PRODUCT_OF_ONE_TAP", 16)):
        atom = MmaSync((16, 8, k), conv.in_dtype, conv.weight_dtype, "int32")
        source = source.replace(name, atom.instruction)
    source = source.replace("PENDING", str(config.stages - 1))
    if conv.epilogue.table:
        with_table = _CHANNELS_WITH_TABLE.replace("AT", str(tiling.lookups_at))
        source = _FILLED_TABLE + source.replace(_CHANNELS, with_table)
    return epilogue.namespace(
        "conv2d_grouped",
        source + epilogue.entry("convolve", "compute_tiles"),
        {"X": conv.in_dtype, "WEIGHT": conv.weight_dtype},
        {
            "BATCH": conv.n, "HEIGHT": conv.h, "WIDTH": conv.w, "CHANNELS": conv.c,
            "P": conv.p, "Q": conv.q, "R": conv.r, "S": conv.s,
            "STRIDE_H": conv.stride[0], "STRIDE_W": conv.stride[1],
            "DILATION_H": conv.dilation[0], "DILATION_W": conv.dilation[1],
            "PAD_H": conv.padding[0], "PAD_W": conv.padding[1],
            "QUADS": quads(conv), "GROUP_UNITS": group_units(conv), "PART_ROWS": part_rows(conv),
            "NARROW": narrow(conv), "SLAB": config.channels, "ROWS": config.rows,
            "STAGES": config.stages, "TILES": tiling.tiles, "RUNS": runs,
            "IMAGES": config.images, "STRIPS_DOWN": config.strips_down,
            "STRIPS_ACROSS": config.strips_across,
            "PHASE": tiling.phase, "ROW_SLOTS": tiling.row_slots, "SWIZZLE": tiling.swizzle,
            "BORDERS": rows.count * columns.count > 1, "COLUMN_CLASSES": columns.count,
            "ROW_HEAD": rows.head, "ROW_TAIL": rows.extent - rows.tail,
            "COLUMN_HEAD": columns.head, "COLUMN_TAIL": columns.extent - columns.tail,
        },
    )  # fmt: skip


def pack(workload: Conv2d, config: GroupedConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """The weight in words of four bytes, then the epilogue's constants."""
    weight = np.asarray(constants["weight"]).reshape(workload.weight_shape)
    epilogue = ThreadEpilogue(workload, _VALUES)
    return (pack_weight(workload, weight), *epilogue.pack(weight, constants))


def packed(workload: Conv2d, config: GroupedConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    weight = TensorSpec("weight", packed_shape(workload), workload.weight_dtype)
    return (weight, *ThreadEpilogue(workload, _VALUES).constant_parameters())


TEMPLATE = Template(
    "conv2d_grouped", 4, matches, space, default, build, pack, packed, estimate=estimate,
    preference=30,
)  # fmt: skip
"""Depthwise and grouped convolution on tensor cores from sm_80."""
