"""Main loop of the halo kernels: commit groups over halo slots and weights, and their barriers.

A slot is released one commit group late, so that the tensor core does not drain between chunks.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.device.memory.cluster import arrive_at_cluster, wait_for_cluster
from autoq.templates.cuda.device.memory.ring import fence_barriers
from autoq.templates.cuda.device.mma.descriptors import descriptor_step
from autoq.templates.cuda.halo.operands import CommitGroup

START_BARRIER = 4
"""Named barrier behind the initialisation of the mbarriers; epilogues use 1 to 3."""


@T.meta_class
class Shared:
    """A block's shared memory: all of it, its barriers, the rings of halos and of weights."""

    def __init__(self, smem, barriers, halo, weights):
        self.smem, self.barriers = smem, barriers
        self.halo, self.weights = halo, weights


@T.inline
def arrive(pointer, lane):
    """One arrival of a warp on a barrier."""
    if lane == 0:
        T.ptx.mbarrier.arrive.shared.b64(pointer, T.uint32(1))


@T.inline
def release_weights(plan, weights, stage, lane):
    """A warp has left a weight stage: say so in every block that loads a part of it."""
    if plan.cluster == 1:
        arrive(weights.empty(stage), lane)
    else:
        if lane < plan.cluster:
            weights.release_in(stage, lane)


@T.inline
def initialise_parts(plan, barriers):
    """By one thread of the block: the barriers of resident weights that arrive in parts."""
    for i in T.unroll(plan.tiling.weight_barriers):
        T.ptx.mbarrier.init.shared.b64(barriers.ptr_to([plan.weight_barriers + i]), T.uint32(1))


@T.inline
def initialise_turns(plan, barriers):
    """By one thread of the block."""
    if plan.config.turns:
        for i in T.unroll(plan.config.consumers):
            T.ptx.mbarrier.init.shared.b64(barriers.ptr_to([plan.turn_barriers + i]), T.uint32(4))


@T.inline
def initialise_barriers(plan, barriers, halo, weights):
    """By one thread of the block."""
    halo.initialise(plan.arrivals)
    if plan.config.in_parts:
        initialise_parts(plan, barriers)
    elif plan.resident:
        T.ptx.mbarrier.init.shared.b64(barriers.ptr_to([plan.weight_barriers]), T.uint32(1))
    else:
        weights.initialise(plan.arrivals * plan.cluster)
    initialise_turns(plan, barriers)
    fence_barriers()


@T.inline
def start_loaders(plan, barriers, halo, warpgroup, warp):
    """Each loading warp initialises what it loads through, and does not wait for the block."""
    if (warpgroup == 0) & (warp == 0) & (T.cuda.elect_sync() != 0):
        halo.initialise(plan.arrivals)
        initialise_turns(plan, barriers)
        fence_barriers()
    if (warpgroup == 0) & (warp == 1) & (T.cuda.elect_sync() != 0):
        initialise_parts(plan, barriers)
        fence_barriers()
    if warpgroup > 0:
        T.ptx.bar.sync(T.uint32(START_BARRIER), T.uint32(plan.started_threads))
    elif warp < 2:
        T.ptx.bar.arrive(T.uint32(START_BARRIER), T.uint32(plan.started_threads))


@T.inline
def start_block(plan, barriers, halo, weights, warpgroup, warp, lane):
    """Barriers, visible to every thread that uses them, in a cluster to all of its blocks."""
    if plan.config.in_parts and plan.cluster == 1:
        start_loaders(plan, barriers, halo, warpgroup, warp)
    else:
        if (warpgroup == 0) & (warp == 0) & (lane == 0):
            initialise_barriers(plan, barriers, halo, weights)
        T.cuda.cta_sync()
        if plan.cluster > 1:
            arrive_at_cluster()
            wait_for_cluster()


@T.inline
def await_part(plan, barriers, step, work):
    """Consumer: the part that begins with a step of a tile has arrived; later tiles know."""
    if (step % plan.config.steps_together == 0) & (work < plan.teams * plan.tiling.grid):
        T.cuda.mbarrier_wait(
            barriers.ptr_to([plan.weight_barriers + step // plan.config.steps_together]), 0
        )


@T.inline
def multiply_group(plan, accumulator, group, barriers, chunk, t, work, thread):
    """The wgmmas of one commit group: filter taps of a chunk, blocks innermost."""
    for i in plan.loop(plan.steps_per_group, plan.unrolled or not plan.resident):
        step = T.meta_var(t * plan.steps_per_group + i)
        pass_turn = T.meta_var(
            chunk * plan.tile.steps + step == plan.tiling.turn_step if plan.config.turns else False
        )
        if pass_turn:
            following = T.meta_var((thread.consumer + 1) % plan.config.consumers)
            arrive(barriers.ptr_to([plan.turn_barriers + following]), thread.lane)
        if plan.config.in_parts:
            await_part(plan, barriers, chunk * plan.tile.steps + step, work)
        for j in T.unroll(plan.tile.step_bytes // plan.tiling.atom.a_bytes):
            for block in T.unroll(plan.blocks):
                T.evaluate(
                    plan.product(accumulator, block, group, step, i, j, chunk + step + j != 0)
                )


@T.inline
def multiply(plan, accumulator, operands, slots, stages, work, thread):
    """Consumer warpgroup: the main loop of one output tile, one wgmma group in flight.

    work: the tile's index.
    """
    for chunk in plan.loop(plan.tile.chunks, plan.unrolled):
        slots.wait()
        for t in T.serial(plan.groups_per_chunk):
            if not plan.resident:
                stages.wait()
            T.ptx.wgmma.fence.sync.aligned()
            weight_offset = T.meta_var(
                chunk * (plan.tile.steps * plan.tiling.weight_bytes)
                if plan.resident
                else stages.stage * plan.tiling.stage_bytes
            )
            a: T.uint64 = operands.a + descriptor_step(slots.stage * plan.tile.slot_bytes)
            b: T.uint64 = operands.b + descriptor_step(weight_offset)
            group = T.meta_var(CommitGroup(a, b, operands.offsets))
            multiply_group(plan, accumulator, group, stages.ring.barriers, chunk, t, work, thread)
            T.ptx.wgmma.commit_group.sync.aligned()
            if plan.tile.chunks * plan.groups_per_chunk > 1:
                T.ptx.wgmma.wait_group.sync.aligned(1)
            if not plan.resident:
                if chunk + t > 0:
                    release_weights(plan, stages.ring, stages.held.stage, thread.lane)
                stages.held.stage = stages.stage
                stages.advance()
            if (t == 0) & (chunk > 0):
                arrive(slots.ring.empty(slots.held.stage), thread.lane)
        slots.held.stage = slots.stage
        slots.advance()


@T.inline
def release_last(plan, slots, stages, lane):
    """Consumer: wait for the last commit group and release what it read."""
    T.ptx.wgmma.wait_group.sync.aligned(0)
    arrive(slots.ring.empty(slots.held.stage), lane)
    if not plan.resident:
        release_weights(plan, stages.ring, stages.held.stage, lane)
