"""Estimated cycles of a CPU convolution configuration: the untuned choice and a model feature.

The constants are rounded from measurements on an AMD EPYC 9005 core (Zen 5, 2 vector products and
2 vector loads a cycle); only their ratios matter for the choice.
"""

from __future__ import annotations

import math

import numpy as np

from autoq.templates.cpu.conv.layout import ConvLayout

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

# Bytes a cycle at which one core streams data that fits no closer cache: (capacity, rate).
_STREAM_RATES = ((32 << 10, 128.0), (512 << 10, 40.0), (math.inf, 12.0))


def estimated_cycles(layout: ConvLayout, units: int) -> float:
    """Cycles that the slowest of `units` cores needs."""
    fork = _FORK_CYCLES if layout.tasks > 1 else 0
    tasks = -(-layout.tasks // units)
    return fork + tasks * (_TASK_CYCLES + _copy_cycles(layout) + _tile_cycles(layout))


def cost_features(layout: ConvLayout, units: int) -> dict[str, float]:
    """Derived features for the search's cost model."""
    return {
        "log2_cycles": math.log2(estimated_cycles(layout, units)),
        "registers": layout.config.pixels * layout.config.vectors,
        "log2_scratch_bytes": math.log2(_scratch_bytes(layout)),
        "log2_weight_bytes": math.log2(_weight_bytes(layout)),
        "tasks_per_unit": layout.tasks / units,
    }


def _scratch_bytes(layout: ConvLayout) -> int:
    return layout.scratch_elements * np.dtype(layout.scratch_dtype).itemsize


def _weight_bytes(layout: ConvLayout) -> int:
    """Bytes of the packed weight that one channel tile reads."""
    return math.prod(layout.weight_shape[1:]) * np.dtype(layout.weight_dtype).itemsize


def _copy_cycles(layout: ConvLayout) -> float:
    if not layout.copies:
        return 0.0
    cycles = layout.scratch_rows * _COPY_ROW_CYCLES + _scratch_bytes(layout) / _COPY_BYTES_A_CYCLE
    spread = layout.group_elements != layout.conv.c // layout.conv.groups
    if spread:  # channel by channel
        cycles += layout.scratch_rows * layout.conv.w * layout.conv.groups * 8
    return cycles


def _stream_cycles(bytes: float) -> float:
    return next(bytes / rate for capacity, rate in _STREAM_RATES if bytes <= capacity)


def _tile_cycles(layout: ConvLayout) -> float:
    """Cycles of all register tiles of a task."""
    config, (rows, columns, _) = layout.config, layout.reduction
    products = config.pixels * config.vectors
    if not layout.dot.fused:
        products *= 2  # a multiplication and an addition
    loads = config.vectors + config.pixels * (config.vectors if layout.dot.depthwise else 1)
    step = max(products / _PRODUCTS_A_CYCLE, loads / _LOADS_A_CYCLE, _PRODUCT_LATENCY)
    compute = rows * (columns * (layout.steps * step + _LOOP_CYCLES) + _LOOP_CYCLES)
    compute += config.pixels * config.vectors * _EPILOGUE_CYCLES + _TILE_CYCLES
    pixel_tiles = -(-config.rows // config.tile_p) * -(-layout.conv.q // config.tile_q)
    weights, image = _weight_bytes(layout), _scratch_bytes(layout)
    first_pass, all_weights = _stream_cycles(weights), weights * layout.tiles_per_task
    if config.channels_outer:
        fetched = _stream_cycles(all_weights) + layout.tiles_per_task * _stream_cycles(image)
        fetched += layout.tiles_per_task * (pixel_tiles - 1) * first_pass
    else:
        fetched = pixel_tiles * _stream_cycles(all_weights) + _stream_cycles(image)
    tiles = layout.tiles_per_task * pixel_tiles
    # Prefetching hides most, not all, of the traffic behind the products.
    return max(tiles * compute, fetched) + 0.2 * fetched
