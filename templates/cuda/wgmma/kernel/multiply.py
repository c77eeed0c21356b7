"""Main loop of the wgmma pipeline's consumers: one group of instructions for each stage."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.mma.descriptors import descriptor_step, encode_descriptor


@T.meta_class
class Operands:
    """What a consumer multiplies: descriptors of its rows of activations, and of weights.

    first_a, first_b: of the first stage's.
    """

    def __init__(self, first_a, first_b):
        self.first_a = first_a
        self.first_b = first_b


@T.inline
def encode_operands(plan, smem, first_a, first_b, first_row):
    """Consumer warpgroup: the descriptors of `Operands`, for its rows from `first_row` on."""
    pitch = T.meta_var(8 * plan.config.row_bytes)
    T.evaluate(
        encode_descriptor(
            first_a, smem.ptr_to([first_row * plan.config.row_bytes]), plan.config.row_bytes, pitch,
            plan.memory.a_bytes,
        )
    )  # fmt: skip
    T.evaluate(
        encode_descriptor(
            first_b, smem.ptr_to([plan.memory.b_offset]), plan.config.row_bytes, pitch,
            plan.memory.b_bytes,
        )
    )  # fmt: skip


@T.meta_class
class GroupSums:
    """Sums of groups along k that have scales of their own, of the tile of columns n.

    sums: a thread's float32 registers, as many as accumulators; arrays: scale and bias by groups.
    """

    def __init__(self, sums, arrays, n):
        self.sums = sums
        self.arrays = arrays
        self.n = n


@T.inline
def leave(plan, ring, stage, rank):
    """One thread of a consumer warp: its stage may be filled, also by the block that loads it."""
    ring.release(stage)
    if plan.leaves_elsewhere(stage, rank):
        ring.release_in(stage, plan.other_block(stage, rank))


@T.inline
def issue(plan, accumulator, operands, stage, k, first, blocks):
    """Consumer warpgroup: the products of so many of its 64-row blocks with a stage, from `first`.

    k: which stage of its main loop it is.
    """
    a: T.uint64 = operands.first_a + descriptor_step(stage * plan.config.stage_bytes)
    b_step = T.meta_var(
        k * plan.memory.b_stage_bytes
        if plan.config.weights_stay
        else stage * plan.config.stage_bytes
    )
    b: T.uint64 = operands.first_b + descriptor_step(b_step)
    for step in T.unroll(plan.instructions):
        for each in T.unroll(blocks):
            block = T.meta_var(first + each)
            a_offset = T.meta_var(
                plan.k_offset(step, plan.memory.a_bytes) + block * (64 * plan.config.row_bytes)
            )
            T.evaluate(
                plan.atom.call(
                    accumulator,
                    block * plan.block_accumulators,
                    a + descriptor_step(a_offset),
                    b + descriptor_step(plan.k_offset(step, plan.memory.b_bytes)),
                    T.bool(True)
                    if plan.started
                    else plan.step_of_sums(k) * plan.instructions + step != 0,
                )
            )


@T.inline
def let_next_team_begin(plan, barriers, thread):
    """Consumer warpgroup, of those that take turns: the products of its tile are on their way."""
    following = T.meta_var(plan.memory.consumer_barriers + (thread.consumer + 1) % plan.teams)
    if thread.lane == 0:
        T.ptx.mbarrier.arrive.shared.b64(barriers.ptr_to([following]), T.uint32(1))


@T.inline
def multiply_stage(plan, accumulator, operands, cursor, k, stages, rank, thread):
    """Consumer warpgroup: stage k of the so many of its main loop."""
    cursor.wait()
    T.ptx.wgmma.fence.sync.aligned()
    issue(plan, accumulator, operands, cursor.stage, k, 0, plan.config.m_blocks)
    T.ptx.wgmma.commit_group.sync.aligned()
    T.ptx.wgmma.wait_group.sync.aligned(1)
    if (k > 0) & (thread.lane == 0):
        leave(plan, cursor.ring, cursor.held.stage, rank)
    cursor.held.stage = cursor.stage
    if plan.ping_pong:  # noqa: SIM102
        if k == stages - 1:
            let_next_team_begin(plan, cursor.ring.barriers, thread)
    if plan.config.team.k_groups > 1:
        cursor.at.stride(plan.config.team.k_groups)
    else:
        cursor.advance()


@T.inline
def complete(plan, cursor, rank, thread):
    """Consumer warpgroup: wait for what is in flight, and leave its stage."""
    T.ptx.wgmma.wait_group.sync.aligned(0)
    if thread.lane == 0:
        leave(plan, cursor.ring, cursor.held.stage, rank)


@T.inline
def end_group(plan, accumulator, groups, k, thread):
    """Consumer warpgroup: behind the last stage of a group that has scales, scale its sums."""
    if (k + 1) % plan.group_stages == 0:
        T.ptx.wgmma.wait_group.sync.aligned(0)
        group = T.meta_var(groups.n * plan.workload.scale_groups + k // plan.group_stages)
        T.cuda.func_call(
            plan.add_group.name,
            groups.sums.ptr_to([0]),
            accumulator.ptr_to([0]),
            groups.arrays.scale.ptr_to([group * plan.config.block_n]),
            groups.arrays.bias.ptr_to([group * plan.config.block_n]),
            thread.lane % 4,
            source_code=plan.add_group.source,
        )


@T.inline
def multiply(plan, accumulator, groups, operands, cursor, piece, rank, thread):
    """Consumer warpgroup: the main loop of a piece of a tile, one wgmma group in flight.

    With a tail it leaves the last stages, and what is in flight, to `tail.py`.
    """
    if plan.grouped:
        for i in T.unroll(plan.config.accumulators):
            groups.sums[i] = T.float32(0)
    stages = T.meta_var(piece.portions if plan.config.stream_k else plan.own_stages)
    # ptxas serialises the products of a loop that it believes may run no turn.
    for k in T.unroll(1 if plan.config.stream_k else 0):
        multiply_stage(plan, accumulator, operands, cursor, k, stages, rank, thread)
    for k in T.serial(1 if plan.config.stream_k else 0, stages - plan.config.tail_stages):
        multiply_stage(plan, accumulator, operands, cursor, k, stages, rank, thread)
        if plan.grouped:
            end_group(plan, accumulator, groups, k, thread)
    if plan.config.tail_stages == 0:
        complete(plan, cursor, rank, thread)
    if plan.grouped:
        for i in T.unroll(plan.config.accumulators):
            accumulator[i] = T.reinterpret("uint32", groups.sums[i])
