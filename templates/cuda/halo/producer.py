"""The producer threads of the halo kernels: halo slots and weights, by TMA.

Weights are packed as they lie in shared memory, so that consecutive steps are one plain copy.
"""

from tvm.script import tirx as T


@T.inline
def load_steps(plan, smem, offset, weight, step, steps, n, rank, full):
    """Consecutive steps' weights to `offset`; in a cluster, this block's part of each."""
    if plan.cluster == 1:
        T.evaluate(plan.load_weights(smem.ptr_to([offset]), weight, step, steps, n, rank, full))
    else:
        for i in T.serial(steps):
            place = T.meta_var(
                offset
                + i * plan.tiling.weight_bytes
                + rank * (plan.tiling.weight_bytes // plan.cluster)
            )
            T.evaluate(plan.load_weights(smem.ptr_to([place]), weight, step + i, 1, n, rank, full))


@T.inline
def load_part(plan, smem, barriers, weight, part, n, rank):
    """Producer: a part of the resident weights; the last one may have fewer steps."""
    full = T.meta_var(barriers.ptr_to([plan.weight_barriers + part]))
    first = T.meta_var(part * plan.config.steps_per_stage)
    steps = T.meta_var(T.min(plan.config.steps_per_stage, plan.tiling.steps_per_tile - first))
    T.ptx.mbarrier.arrive.expect_tx.shared.b64(
        full, T.cast(steps * plan.tiling.weight_bytes, "uint32")
    )
    offset = T.meta_var(plan.tiling.weight_offset + first * plan.tiling.weight_bytes)
    load_steps(plan, smem, offset, weight, first, steps, n, rank, full)


@T.inline
def load_resident_weights(plan, smem, barriers, weight, n, rank):
    """Producer: all weights of a tile of channels, once."""
    steps = T.meta_var(plan.tiling.steps_per_tile)
    if plan.config.in_parts:
        for part in T.serial(plan.tiling.weight_barriers):
            load_part(plan, smem, barriers, weight, part, n, rank)
    else:
        full = T.meta_var(barriers.ptr_to([plan.weight_barriers]))
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(full, T.uint32(steps * plan.tiling.weight_bytes))
        load_steps(plan, smem, plan.tiling.weight_offset, weight, 0, steps, n, rank, full)


@T.inline
def stream_weights(plan, smem, weights, stage, weight, chunk, n, rank):
    """Producer: the weight stages of one chunk."""
    for t in T.serial(plan.tiling.stages_per_chunk):
        weights.acquire(stage, plan.tiling.stage_bytes)
        steps = T.meta_var(plan.config.steps_per_stage)
        first = T.meta_var((chunk * plan.tiling.stages_per_chunk + t) * steps)
        offset = T.meta_var(plan.tiling.weight_offset + stage.stage * plan.tiling.stage_bytes)
        load_steps(plan, smem, offset, weight, first, steps, n, rank, weights.full(stage.stage))
        stage.advance()


@T.inline
def produce(plan, smem, halo, weights, slot, stage, x_map, weight, m, n, rank):
    """Producer thread: halo slots and streamed weights of one output tile."""
    for chunk in T.serial(plan.tile.chunks):
        halo.acquire(slot, plan.tile.load_bytes)
        T.evaluate(
            plan.fetch(
                smem.ptr_to([slot.stage * plan.tile.slot_bytes]), T.address_of(x_map), m, chunk,
                halo.full(slot.stage),
            )
        )  # fmt: skip
        slot.advance()
        if not plan.resident:
            stream_weights(plan, smem, weights, stage, weight, chunk, n, rank)
