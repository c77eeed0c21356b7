"""What consumers of the mixed-input product compute: widening, products, sums of groups.

The registers of A take turns: those of the next stage are written while products of this stage
read the others.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.device.mma.descriptors import descriptor_step

# Named barriers: 0 is the block's, those from 2 on belong to the stores of consumers.
_GROUP_BARRIERS = 8


@T.meta_class
class Operands:
    """Where a consumer finds what it multiplies.

    a: registers of widened weights; rows: a thread's zero points, four words a block of 64 weight
    rows; first_a, first_x: descriptors of the first stage's weights, where they need no widening,
    and rows of x.
    """

    def __init__(self, smem, a, rows, first_a, first_x):
        self.smem = smem
        self.a = a
        self.rows = rows
        self.first_a = first_a
        self.first_x = first_x


@T.meta_class
class RowConstants:
    """What the kernel takes for each weight row; an array that is absent may be any other.

    taken: what zero points take from weights; scale, bias: of the epilogue.
    """

    def __init__(self, taken, scale, bias):
        self.taken = taken
        self.scale = scale
        self.bias = bias


@T.inline
def convert(plan, operands, parity, stage, thread):
    """Consumer: the weights of a stage into the registers of A of its parity."""
    if plan.converts:
        for block in T.unroll(plan.config.row_blocks):
            for step in T.unroll(plan.config.steps):
                T.cuda.func_call(
                    plan.convert.name,
                    operands.a.ptr_to([plan.a_at(parity, block, 4 * step)]),
                    operands.smem.ptr_to([
                        stage * plan.stage_bytes + plan.weight_offset
                        + (thread.consumer * plan.config.row_blocks + block) * plan.block_bytes
                        + step * plan.tile_bytes
                    ]),
                    operands.rows.ptr_to([4 * block]),
                    thread.index,
                    source_code=plan.convert.source,
                )  # fmt: skip


@T.inline
def multiply(plan, accumulator, operands, parity, stage, started, unit=0):
    """Consumer: start the products of a stage, or of one of the units that it is summed in."""
    x: T.uint64 = operands.first_x + descriptor_step(stage * plan.stage_bytes)
    own: T.uint64 = operands.first_a + descriptor_step(stage * plan.stage_bytes)
    T.ptx.wgmma.fence.sync.aligned()
    for instruction in T.unroll(plan.unit_instructions):
        i = T.meta_var(unit * plan.unit_instructions + instruction)
        for block in T.unroll(plan.config.row_blocks):
            registers = T.meta_var([operands.a[plan.a_at(parity, block, i) + r] for r in range(4)])
            tile = T.meta_var(own + descriptor_step(block * plan.block_bytes + plan.a_step(i)))
            T.evaluate(
                plan.atom.call(
                    accumulator, block * plan.atom.d_registers,
                    registers if plan.converts else tile,
                    x + descriptor_step(plan.x_step(i)),
                    (instruction > 0) | started,
                )
            )  # fmt: skip
    T.ptx.wgmma.commit_group.sync.aligned()


@T.inline
def leave(plan, ring, stage, lane):
    """Consumer warp: a stage may be filled again, by every block that loads into it."""
    if lane == 0:
        if plan.config.cluster == 1:
            ring.release(stage)
        for rank in T.unroll(plan.config.cluster if plan.config.cluster > 1 else 0):
            ring.release_in(stage, rank)


@T.inline
def next_stage(plan, cursor):
    """Consumer: on to the next stage of its own."""
    if plan.config.k_groups > 1:
        cursor.at.stride(plan.config.k_groups)
    else:
        cursor.advance()


@T.inline
def main_loop(plan, accumulator, operands, cursor, piece, thread, turn):
    """Consumer: all products of a piece of an output tile; turn: its `ConsumerTurn`."""
    cursor.wait()
    convert(plan, operands, 0, cursor.stage, thread)
    for pair in T.serial(piece.portions):
        for parity in T.unroll(2):
            started = T.meta_var((pair > 0) | (parity > 0))
            multiply(plan, accumulator, operands, parity, cursor.stage, started)
            T.ptx.wgmma.wait_group.sync.aligned(1)
            if started:
                leave(plan, cursor.ring, cursor.held.stage, thread.lane)
            cursor.held.stage = cursor.stage
            next_stage(plan, cursor)
            if (pair < piece.portions - 1) | (parity < 1):
                cursor.wait()
                convert(plan, operands, 1 - parity, cursor.stage, thread)
    turn.pass_on(thread)
    T.ptx.wgmma.wait_group.sync.aligned(0)
    leave(plan, cursor.ring, cursor.held.stage, thread.lane)


@T.inline
def add_groups(plan, accumulator, sums, k_group, thread):
    """Consumers of one tile's rows: the first group gets the sums of all."""
    barrier = T.meta_var(_GROUP_BARRIERS + thread.consumer)
    threads = T.meta_var(128 * plan.config.k_groups)
    if k_group > 0:
        giver = T.meta_var((k_group - 1) * plan.config.row_team + thread.consumer)
        for i in T.unroll(plan.config.accumulators):
            sums[plan.exchanged(giver, i, thread.index)] = accumulator[i]
    T.ptx.bar.sync(T.cast(barrier, "uint32"), T.uint32(threads))
    if k_group == 0:
        for other in T.unroll(plan.config.k_groups - 1):
            giver = T.meta_var(other * plan.config.row_team + thread.consumer)
            for i in T.unroll(plan.config.accumulators):
                accumulator[i] = accumulator[i] + sums[plan.exchanged(giver, i, thread.index)]
    T.ptx.bar.sync(T.cast(barrier, "uint32"), T.uint32(threads))


@T.inline
def load_rows(plan, constants, scales, rows, place, thread):
    """Consumer: scale, bias and zero points of a thread's weight rows."""
    for block in T.unroll(plan.config.row_blocks):
        for half in T.unroll(2):
            own = T.meta_var(thread.consumer * plan.config.row_blocks + block)
            row = T.meta_var(
                (plan.weight_tile(place) * plan.config.blocks + own) * 64
                + thread.warp * 16 + thread.lane // 4 + 8 * half
            )  # fmt: skip
            scales[4 * block + half] = constants.scale[row] if plan.rows_scaled else T.float32(1)
            scales[4 * block + 2 + half] = (
                constants.bias[row] if plan.workload.bias else T.float32(0)
            )
            rows[4 * block + half] = constants.taken[row] if plan.rows_shifted else T.uint32(0)
            rows[4 * block + 2 + half] = T.uint32(0)
