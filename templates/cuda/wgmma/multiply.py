"""Main loop of the wgmma pipeline's consumers: one group of instructions for each stage."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.mma.descriptors import descriptor_step


@T.inline
def leave(plan, ring, stage, rank):
    """One thread of a consumer warp: its stage may be filled, also by the block that loads it."""
    ring.release(stage)
    if plan.loaded_elsewhere(stage, rank):
        ring.release_in(stage, stage % plan.receivers)


@T.inline
def multiply_stage(
    plan, accumulator, first_a, first_b, ring, at, previous, k, rank, consumer, lane
):  # fmt: skip
    """Consumer warpgroup: stage k of its main loop."""
    ring.wait(at)
    T.ptx.wgmma.fence.sync.aligned()
    a: T.uint64 = first_a + descriptor_step(at.stage * plan.config.stage_bytes)
    b_step = T.meta_var(
        k * plan.b_stage_bytes if plan.config.weights_stay else at.stage * plan.config.stage_bytes
    )
    b: T.uint64 = first_b + descriptor_step(b_step)
    for step in T.unroll(plan.instructions):
        for block in T.unroll(plan.config.m_blocks):
            a_offset = T.meta_var(
                plan.k_offset(step, plan.a_bytes) + block * (64 * plan.config.row_bytes)
            )
            T.evaluate(
                plan.atom.call(
                    accumulator,
                    block * plan.block_accumulators,
                    a + descriptor_step(a_offset),
                    b + descriptor_step(plan.k_offset(step, plan.b_bytes)),
                    T.bool(True) if plan.started else k * plan.instructions + step != 0,
                )
            )
    T.ptx.wgmma.commit_group.sync.aligned()
    T.ptx.wgmma.wait_group.sync.aligned(1)
    if (k > 0) & (lane == 0):
        leave(plan, ring, previous.stage, rank)
    previous.stage = at.stage
    if plan.ping_pong:
        following = T.meta_var(plan.order_barriers + (consumer + 1) % plan.teams)
        if (k == plan.layout.stages - 1) & (lane == 0):
            T.ptx.mbarrier.arrive.shared.b64(ring.barriers.ptr_to([following]), T.uint32(1))
    if plan.config.k_groups > 1:
        at.stride(plan.config.k_groups)
    else:
        at.advance()


@T.inline
def multiply(plan, accumulator, first_a, first_b, ring, at, previous, rank, consumer, lane):
    """Consumer warpgroup: the main loop of one output tile, one wgmma group in flight."""
    for k in T.serial(plan.own_stages):
        multiply_stage(
            plan, accumulator, first_a, first_b, ring, at, previous, k, rank, consumer, lane
        )
    T.ptx.wgmma.wait_group.sync.aligned(0)
    if lane == 0:
        leave(plan, ring, previous.stage, rank)
