"""Features of the halo convolutions for the cost model, and an analytic estimate of its cycles."""

from __future__ import annotations

from collections.abc import Mapping

from autoq.search.lanes import choose, least, most
from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.mma.wgmma import K_BYTES
from autoq.templates.cuda.halo.tiling import HaloTiling
from autoq.templates.hardware import FITTED_CLOCK_HZ, SMEM_BYTES_A_CLOCK

# Bytes a cycle and multiprocessor from the L2; 31 if all differ (7 TB/s on an H200), more where
# blocks read the same weights at the same time (53 at 8 x 14x14x256 -> 256).
_FILL_RATE = 64

# The same of a load whose rows lie in as many images: 17 to 21 for 128 x 28x28x128.
_SCATTERED_RATE = 20

# Multiply-adds of 8-bit operands a cycle and multiprocessor.
_MULTIPLY_RATE = 4096

# Cycles of a tile's staging barriers, fence and store.
_STORE_CYCLES = 300

# Rows of 16 bytes start anywhere in a bank line: wgmma took 151 instead of 112 cycles at n = 224.
_UNSWIZZLED = 1.35

# Cycles from a TMA request to its barrier; of a commit group's barriers and fences; least of one
# with two in flight; of a tile's, until the tensor core runs again.
_LOAD_LATENCY = 1000
_GROUP_CYCLES = 45
_LEAST_GROUP_CYCLES = 150
_TILE_CYCLES = 150


def features(tiling: HaloTiling) -> Mapping[str, float]:
    """Derived features of a configuration for the cost model."""
    tile, config = tiling.tile, tiling.config
    outputs = tiling.computed
    streamed = choose(config.resident, 0, tile.reduction * config.block_n // config.cluster)
    return {
        "flat": tile.shape.flat,
        "images": tile.shape.images,
        "height": tile.shape.height,
        "width": tile.shape.width,
        "consumers": config.consumers,
        "cooperative": config.cooperative,
        "cluster": config.cluster,
        "ring_stages": config.ring_stages,
        "steps_together": config.steps_together,
        "blocks_per_consumer": tiling.blocks_per_consumer,
        "waves": tiling.waves,
        "last_wave": tiling.work / (tiling.waves * tiling.grid),
        "useful": tile.useful,
        "useful_n": tiling.workload.k / (tiling.n_tiles * config.block_n),
        "smem_bytes": tiling.smem_bytes,
        "fill_bytes": tile.load_bytes * tile.chunks + streamed,
        "instructions": tiling.blocks * tile.reduction // K_BYTES,
        "accumulators": tiling.accumulators,
        "outputs": outputs,
        "multiplies_per_byte": outputs * tile.reduction
        / (tile.load_bytes * tile.chunks + streamed),
        "seconds_estimate": estimated_cycles(tiling) / FITTED_CLOCK_HZ,
    }  # fmt: skip


def estimated_cycles(tiling: HaloTiling) -> float:
    """Cycles of the busiest block from the rates of tensor core, shared memory, L2 and ALU."""
    tile, config = tiling.tile, tiling.config
    instructions = tiling.blocks * tile.reduction / K_BYTES
    multiply = 64 * tiling.instruction_n * K_BYTES / _MULTIPLY_RATE
    operands = (64 + tiling.instruction_n) * K_BYTES / SMEM_BYTES_A_CLOCK
    each = most(multiply, operands) * choose(tile.row_bytes == 16, _UNSWIZZLED, 1)
    groups = tile.chunks * choose(config.resident, 1, tiling.stages_per_chunk)
    group = instructions * each / groups + _GROUP_CYCLES
    latency = _LOAD_LATENCY + tiling.stage_bytes / _FILL_RATE
    hidden = choose(config.ring_stages > 1, latency / most(config.ring_stages - 1, 1), 0)
    rate = choose(tile.scattered, _SCATTERED_RATE, _FILL_RATE)
    refill = _LOAD_LATENCY + tile.load_bytes / rate
    tensor = groups * most(group, _LEAST_GROUP_CYCLES, hidden)
    loads = most(refill / most(config.halo_stages - 1, 1), tile.load_bytes / rate)
    waiting = choose(config.halo_stages == 1, tensor, 0) + tile.chunks * loads
    filled_again = tiling.waves * tile.chunks > config.halo_stages
    tensor = most(tensor, choose(filled_again, waiting, 0))
    tensor = most(tensor, _shared_memory_cycles(tiling)) + _TILE_CYCLES
    outputs = tiling.computed
    # A lone warpgroup fills every second issue slot.
    epilogue = outputs * tiling.epilogue_slots / 128
    alone = 2 * epilogue + _STORE_CYCLES

    weights = tile.reduction * config.block_n
    streamed = choose(config.resident, 0, weights / config.cluster)
    loaded = tile.load_bytes * tile.chunks + streamed
    ring = choose(config.resident, 0, config.ring_stages * tiling.stage_bytes)
    in_flight = config.halo_stages * tile.load_bytes + ring
    fill = loaded / least(_FILL_RATE, in_flight / _LOAD_LATENCY)
    fill += outputs * tile.useful * element(tiling.workload.epilogue.out_dtype).bytes / _FILL_RATE

    turns = most(tensor, epilogue, (tensor + alone) / config.consumers)
    each = choose(config.cooperative, tensor + alone / config.consumers, turns)
    tail = choose(config.cooperative, alone / config.consumers, alone)
    first = choose(config.in_parts, tiling.stage_bytes, choose(config.resident, weights, 0))
    start = _LOAD_LATENCY + first / _FILL_RATE + tail
    # Where there are more teams than waves the other consumers have no tile.
    each = choose(config.teams > tiling.waves, tensor, each)
    return start + tiling.waves * most(each, fill)


def _shared_memory_cycles(tiling: HaloTiling) -> float:
    """Cycles that shared memory needs for a tile: operands, loads, and the staged output."""
    tile, config = tiling.tile, tiling.config
    instructions = tiling.blocks * tile.reduction / K_BYTES
    operands = instructions * (64 + tiling.instruction_n) * K_BYTES
    loads = tile.load_bytes * tile.chunks
    loads += choose(config.resident, 0, tile.reduction * config.block_n)
    return (operands + loads + tiling.staged_bytes) / SMEM_BYTES_A_CLOCK
