"""Features of the halo convolutions for the cost model, and an analytic estimate of its cycles."""

from __future__ import annotations

from collections.abc import Mapping

from autoq.templates.cuda.halo_layout import HaloLayout
from autoq.templates.movement import ITEM_BYTES
from autoq.templates.tiles.wgmma import K_BYTES

# Bytes a cycle and multiprocessor from the L2, measured as 7 TB/s on an H200.
_FILL_RATE = 31

# Shared-memory bytes a cycle that wgmma can read.
_SMEM_RATE = 128

# Multiply-adds of 8-bit operands a cycle and multiprocessor.
_MULTIPLY_RATE = 4096

# Instructions of the epilogue per output, over 128 lanes.
_EPILOGUE_CYCLES = 10 / 128

# Cycles from a TMA request to its barrier; of a commit group's barriers and fences; of a tile's,
# until the tensor core runs again.
_LOAD_LATENCY = 1000
_GROUP_CYCLES = 40
_TILE_CYCLES = 150


def features(layout: HaloLayout) -> Mapping[str, float]:
    """Derived features of a configuration for the cost model."""
    tile, config = layout.tile, layout.config
    outputs = layout.computed
    streamed = 0 if config.resident else tile.reduction * config.block_n
    return {
        "flat": tile.flat,
        "images": tile.images,
        "height": tile.height,
        "width": tile.width,
        "consumers": config.consumers,
        "cooperative": config.cooperative,
        "stages": config.stages,
        "steps_per_stage": config.steps_per_stage,
        "blocks_per_consumer": layout.blocks_per_consumer,
        "waves": layout.waves,
        "last_wave": layout.work / (layout.waves * layout.grid),
        "useful": tile.useful,
        "useful_n": layout.workload.k / (layout.n_tiles * config.block_n),
        "smem_bytes": layout.smem_bytes,
        "fill_bytes": tile.load_bytes * tile.chunks + streamed,
        "instructions": layout.blocks * tile.reduction // K_BYTES,
        "accumulators": layout.accumulators,
        "outputs": outputs,
        "multiplies_per_byte": outputs * tile.reduction
        / (tile.load_bytes * tile.chunks + streamed),
        "estimated_cycles": estimated_cycles(layout),
    }  # fmt: skip


def estimated_cycles(layout: HaloLayout) -> float:
    """Cycles of the busiest block from the rates of tensor core, shared memory, L2 and ALU."""
    tile, config = layout.tile, layout.config
    instructions = layout.blocks * tile.reduction / K_BYTES
    multiply = 64 * layout.instruction_n * K_BYTES / _MULTIPLY_RATE
    operands = (64 + layout.instruction_n) * K_BYTES / _SMEM_RATE
    groups = tile.chunks * (1 if config.resident else layout.stages_per_chunk)
    tensor = instructions * max(multiply, operands) + groups * _GROUP_CYCLES + _TILE_CYCLES
    outputs = layout.computed
    epilogue = outputs * _EPILOGUE_CYCLES

    weights = tile.reduction * config.block_n
    streamed = 0 if config.resident else weights
    loaded = tile.load_bytes * tile.chunks + streamed
    in_flight = config.halo_stages * tile.load_bytes + config.stages * layout.stage_bytes
    fill = loaded / min(_FILL_RATE, in_flight / _LOAD_LATENCY)
    fill += outputs * tile.useful * ITEM_BYTES[layout.workload.epilogue.out_dtype] / _FILL_RATE

    if config.consumers == 1:
        # Nothing overlaps a lone warpgroup's epilogue, and it fills half of the issue slots.
        each = tensor + 2 * epilogue
    else:
        each = tensor + epilogue if config.cooperative else max(tensor, epilogue)
    tail = epilogue * (1 if config.cooperative else layout.tiles_in_flight)
    start = 2 * _LOAD_LATENCY + (weights if config.resident else 0) / _FILL_RATE + tail
    if layout.tiles_in_flight > layout.waves:
        each = tensor * layout.tiles_in_flight  # the other consumers have no tile
    return start + layout.waves * max(each, fill)
