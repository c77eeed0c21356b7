"""The end of a consumer's last tile, block by block: one is stored while the next multiplies.

A consumer with several 64-row blocks multiplies all of them with a stage before it goes on, and
they end together: nothing hides the epilogue of its last tile. With `tail_stages` the last stages
stay in the ring until each block has been multiplied with all of them by itself. A block's sums are
complete that much earlier than those of the next one, and are stored under its products. Other
tiles need no tail, which would keep stages from the next one.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.wgmma.kernel.multiply import (
    complete,
    issue,
    leave,
    let_next_team_begin,
    multiply_stage,
)
from autoq.templates.cuda.wgmma.kernel.store import store
from autoq.templates.epilogue.cuda.fragments.thread_share import ThreadShare


@T.meta_class
class Finish:
    """What a consumer stores tiles with: arrays, shared memory, a tile's slot, limits.

    parts: the sums of tiles that several blocks share, where they do; expanded: what says which
    columns of y are those of the product, where they are some.
    """

    def __init__(self, arrays, smem, slot, limits, parts, expanded):
        self.arrays = arrays
        self.smem = smem
        self.slot = slot
        self.limits = limits
        self.parts, self.expanded = parts, expanded


def stage_of_tail(plan, begin, step):
    """The stage of a step of the tail, whose first one is `begin`."""
    stage, depth = begin + step, plan.config.stages
    return T.if_then_else(stage >= depth, stage - depth, stage)


@T.inline
def multiply_tail(plan, accumulator, operands, cursor, begin, rank, thread):
    """Consumer warpgroup: the products of the last stages, the last wgmma group of each block.

    begin: the stage that comes first.
    """
    shared = T.meta_var(plan.own_stages - plan.config.tail_stages)
    for step in T.unroll(plan.config.tail_stages):
        cursor.wait()
        T.ptx.wgmma.fence.sync.aligned()
        issue(plan, accumulator, operands, cursor.stage, shared + step, 0, 1)
        if step == 0:
            T.ptx.wgmma.commit_group.sync.aligned()
            T.ptx.wgmma.wait_group.sync.aligned(1)
            if thread.lane == 0:
                leave(plan, cursor.ring, cursor.held.stage, rank)
        cursor.advance()
    T.ptx.wgmma.commit_group.sync.aligned()
    for following in T.unroll(plan.config.m_blocks - 1):
        for step in T.unroll(plan.config.tail_stages):
            stage = T.meta_var(stage_of_tail(plan, begin, step))
            issue(plan, accumulator, operands, stage, shared + step, following + 1, 1)
        T.ptx.wgmma.commit_group.sync.aligned()
    if plan.ping_pong:
        let_next_team_begin(plan, cursor.ring.barriers, thread)


@T.inline
def finish_block(plan, accumulator, cursor, begin, rank, share, finish, block):
    """Consumer warpgroup: store a block as soon as it is complete."""
    T.ptx.wgmma.wait_group.sync.aligned(plan.config.m_blocks - 1 - block)
    if block == plan.config.m_blocks - 1:  # noqa: SIM102
        if share.thread.lane == 0:
            for step in T.unroll(plan.config.tail_stages):
                leave(plan, cursor.ring, stage_of_tail(plan, begin, step), rank)
    own = T.meta_var(ThreadShare(share.place, share.thread, share.first_row, share.part, block))
    store(plan, accumulator, finish, own)


@T.inline
def finish_blocks(plan, accumulator, cursor, begin, rank, share, finish):
    """Consumer warpgroup: store its two or three blocks."""
    finish_block(plan, accumulator, cursor, begin, rank, share, finish, 0)
    finish_block(plan, accumulator, cursor, begin, rank, share, finish, 1)
    if plan.config.m_blocks > 2:
        finish_block(plan, accumulator, cursor, begin, rank, share, finish, 2)


@T.inline
def finish_tile(plan, accumulator, operands, cursor, rank, share, finish, walk):
    """Consumer warpgroup: what `multiply` leaves of a tile, and its epilogue."""
    if walk.last:
        begin: T.int32 = cursor.stage
        multiply_tail(plan, accumulator, operands, cursor, begin, rank, share.thread)
        finish_blocks(plan, accumulator, cursor, begin, rank, share, finish)
    else:
        stages = T.meta_var(plan.own_stages)
        for k in T.serial(stages - plan.config.tail_stages, stages):
            multiply_stage(plan, accumulator, operands, cursor, k, stages, rank, share.thread)
        complete(plan, cursor, rank, share.thread)
        store(plan, accumulator, finish, share)
