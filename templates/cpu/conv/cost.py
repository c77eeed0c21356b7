"""Estimated cycles of a CPU convolution configuration: the untuned choice and a model feature.

The constants are rounded from measurements on an AMD EPYC 9005 core (Zen 5, 2 vector products and
2 vector loads a cycle); only their ratios matter for the choice. A configuration whose knobs are
arrays stands for many, and its cycles are an array.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from autoq.templates.cpu.conv.tiling import ConvTiling

_PRODUCTS_A_CYCLE = 2
_LOADS_A_CYCLE = 1.7  # two issue, but a tile of 28 broadcasts a weight ran a third slower
_PRODUCT_LATENCY = 4
_LOOP_CYCLES = 4
_TILE_CYCLES = 20
_EPILOGUE_CYCLES = 8
_COPY_BYTES_A_CYCLE = 32
_COPY_ROW_CYCLES = 20
_TASK_CYCLES = 200
_FORK_CYCLES = 10_000  # 1 to 3 us from one thread to two and back

# Turns cycles into seconds; only the relation of two estimates matters.
_NOMINAL_CLOCK = 3e9

# Bytes of the caches, and at how many a cycle one core streams what fits each, and what fits none.
_STREAM_CAPACITIES = np.array([32 << 10, 512 << 10])
_STREAM_RATES = np.array([128.0, 40.0, 12.0])

Number = TypeVar("Number", float, np.ndarray)


def estimated_cycles(tiling: ConvTiling, units: int) -> Number:
    """Cycles that the slowest of `units` cores needs."""
    fork = np.where(tiling.tasks > 1, _FORK_CYCLES, 0)
    tasks = -(-tiling.tasks // units)
    return fork + tasks * (_TASK_CYCLES + _copy_cycles(tiling) + _tile_cycles(tiling))


def cost_features(tiling: ConvTiling, units: int) -> dict[str, float]:
    """Derived features for the search's cost model."""
    return {
        "seconds_estimate": estimated_cycles(tiling, units) / _NOMINAL_CLOCK,
        "registers": tiling.config.pixels * tiling.config.vectors,
        "log2_scratch_bytes": math.log2(_scratch_bytes(tiling)),
        "log2_weight_bytes": math.log2(_weight_bytes(tiling)),
        "tasks_per_unit": tiling.tasks / units,
    }


def _scratch_bytes(tiling: ConvTiling) -> int:
    return tiling.scratch_elements * np.dtype(tiling.scratch_dtype).itemsize


def _weight_bytes(tiling: ConvTiling) -> int:
    """Bytes of the packed weight that one channel tile reads."""
    return math.prod(tiling.weight_shape[1:]) * np.dtype(tiling.weight_dtype).itemsize


def _copy_cycles(tiling: ConvTiling) -> Number:
    if not tiling.copies:
        return 0.0
    cycles = tiling.scratch_rows * _COPY_ROW_CYCLES + _scratch_bytes(tiling) / _COPY_BYTES_A_CYCLE
    spread = tiling.group_elements != tiling.conv.c // tiling.conv.groups
    if spread:  # channel by channel
        cycles += tiling.scratch_rows * tiling.conv.w * tiling.conv.groups * 8
    return cycles


def _stream_cycles(bytes: Number) -> Number:
    return bytes / _STREAM_RATES[np.searchsorted(_STREAM_CAPACITIES, bytes)]


def _tile_cycles(tiling: ConvTiling) -> Number:
    """Cycles of all register tiles of a task."""
    config, (rows, columns, _) = tiling.config, tiling.reduction
    products = config.pixels * config.vectors
    if not tiling.dot.fused:
        products *= 2  # a multiplication and an addition
    loads = config.vectors + config.pixels * (config.vectors if tiling.dot.depthwise else 1)
    step = np.maximum(products / _PRODUCTS_A_CYCLE, loads / _LOADS_A_CYCLE)
    step = np.maximum(step, _PRODUCT_LATENCY)
    compute = rows * (columns * (tiling.steps * step + _LOOP_CYCLES) + _LOOP_CYCLES)
    compute += config.pixels * config.vectors * _EPILOGUE_CYCLES + _TILE_CYCLES
    pixel_tiles = -(-config.rows // config.tile_p) * -(-tiling.conv.q // config.tile_q)
    weights, image = _weight_bytes(tiling), _scratch_bytes(tiling)
    first_pass, all_weights = _stream_cycles(weights), weights * tiling.tiles_per_task
    channel_by_channel = _stream_cycles(all_weights) + tiling.tiles_per_task * _stream_cycles(image)
    channel_by_channel += tiling.tiles_per_task * (pixel_tiles - 1) * first_pass
    pixel_by_pixel = pixel_tiles * _stream_cycles(all_weights) + _stream_cycles(image)
    fetched = np.where(config.channels_outer, channel_by_channel, pixel_by_pixel)
    tiles = tiling.tiles_per_task * pixel_tiles
    # Prefetching hides most, not all, of the traffic behind the products.
    return np.maximum(tiles * compute, fetched) + 0.2 * fetched
