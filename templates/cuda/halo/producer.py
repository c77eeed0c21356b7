"""The producer threads of the halo kernels: halo slots and weights, by TMA.

Weights are packed as they lie in shared memory, so that consecutive steps are one plain copy.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.device.launch.dependent_launch import (
    start_successor,
    wait_for_predecessors,
)
from autoq.templates.cuda.device.launch.place import TilePlace
from autoq.templates.cuda.device.memory.ring import RingCursor, RingPosition


@T.inline
def load_steps(plan, smem, offset, weight, step, steps, place, full):
    """Consecutive steps' weights to `offset`; in a cluster, this block's part of each."""
    if plan.cluster == 1:
        T.evaluate(plan.load_weights(smem.ptr_to([offset]), weight, step, steps, place, full))
    else:
        for i in T.serial(steps):
            own = T.meta_var(
                offset
                + i * plan.tiling.weight_bytes
                + place.rank * (plan.tiling.weight_bytes // plan.cluster)
            )
            T.evaluate(plan.load_weights(smem.ptr_to([own]), weight, step + i, 1, place, full))


@T.inline
def load_part(plan, smem, barriers, weight, part, place):
    """Producer: a part of the resident weights; the last one may have fewer steps."""
    full = T.meta_var(barriers.ptr_to([plan.weight_barriers + part]))
    first = T.meta_var(part * plan.config.steps_together)
    steps = T.meta_var(T.min(plan.config.steps_together, plan.tiling.steps_per_tile - first))
    T.ptx.mbarrier.arrive.expect_tx.shared.b64(
        full, T.cast(steps * plan.tiling.weight_bytes, "uint32")
    )
    offset = T.meta_var(plan.tiling.weight_offset + first * plan.tiling.weight_bytes)
    load_steps(plan, smem, offset, weight, first, steps, place, full)


@T.inline
def load_resident_weights(plan, smem, barriers, weight, place):
    """Producer: all weights of a tile of channels, once."""
    steps = T.meta_var(plan.tiling.steps_per_tile)
    if plan.config.in_parts:
        for part in T.serial(plan.tiling.weight_barriers):
            load_part(plan, smem, barriers, weight, part, place)
    else:
        full = T.meta_var(barriers.ptr_to([plan.weight_barriers]))
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(full, T.uint32(steps * plan.tiling.weight_bytes))
        load_steps(plan, smem, plan.tiling.weight_offset, weight, 0, steps, place, full)


@T.inline
def stream_weights(plan, smem, stages, weight, chunk, place):
    """Producer: the weight stages of one chunk."""
    for t in T.serial(plan.tiling.stages_per_chunk):
        stages.acquire(plan.tiling.stage_bytes)
        steps = T.meta_var(plan.config.steps_together)
        first = T.meta_var((chunk * plan.tiling.stages_per_chunk + t) * steps)
        offset = T.meta_var(plan.tiling.weight_offset + stages.stage * plan.tiling.stage_bytes)
        load_steps(plan, smem, offset, weight, first, steps, place, stages.full)
        stages.advance()


@T.inline
def produce(plan, smem, slots, stages, x_map, weight, place):
    """Producer thread: halo slots and streamed weights of one output tile."""
    for chunk in T.serial(plan.tile.chunks):
        slots.acquire(plan.tile.load_bytes)
        to = T.meta_var(smem.ptr_to([slots.stage * plan.tile.slot_bytes]))
        T.evaluate(plan.fetch(to, T.address_of(x_map), place.m, chunk, slots.full))
        slots.advance()
        if not plan.resident:
            stream_weights(plan, smem, stages, weight, chunk, place)


@T.inline
def produce_all(plan, shared, x_map, weight, cta, rank):
    """Producer thread: the halos of all tiles of its block, and weights that do not stay."""
    slot = T.meta_var(RingPosition(plan.config.halo_stages))
    slot.start(0)
    stage = T.meta_var(RingPosition(plan.ring_stages))
    stage.start(0)
    slots = T.meta_var(RingCursor(shared.halo, slot))
    stages = T.meta_var(RingCursor(shared.weights, stage))
    work: T.int32 = cta
    wait_for_predecessors()
    start_successor()
    while work < plan.tiling.work:
        m, n = plan.tiling.tile_of(work)
        place = T.meta_var(TilePlace(m, n, rank))
        produce(plan, shared.smem, slots, stages, x_map, weight, place)
        work = work + plan.tiling.grid
    if plan.cluster > 1 and not plan.resident:
        shared.weights.wait_until_left(stage)


@T.inline
def feed(plan, shared, x_map, weight, at):
    """Producer warpgroup: a thread for what comes through rings, one for weights that stay."""
    T.ptx.setmaxnreg.dec.sync.aligned.u32(plan.config.registers.producer)
    if plan.resident:  # noqa: SIM102
        if (at.warp == 1) & (T.cuda.elect_sync() != 0):
            place = T.meta_var(TilePlace(*plan.tiling.tile_of(at.block), at.rank))
            load_resident_weights(plan, shared.smem, shared.barriers, weight, place)
    if (at.warp == 0) & (T.cuda.elect_sync() != 0):
        produce_all(plan, shared, x_map, weight, at.block, at.rank)
