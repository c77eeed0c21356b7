"""Consumers of the mixed-input product that widen the next stage between products of this one.

A warp stops at a wgmma that takes A from its registers until those before it have nearly ended, so
that what stands behind all products of a stage overlaps with the last of them alone. Here a quarter
of a step is widened behind each product, into the registers that the same product of the stage
before has read.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.device.mma.descriptors import descriptor_step
from autoq.templates.cuda.mixed.wgmma.consumer import convert, leave, next_stage

KEPT_WORDS = 8
"""Of a row block, between quarters of a step."""

_MOST_PENDING = 7


@T.inline
def widen_quarter(plan, operands, parity, stage, i, thread):
    """Consumer: the weights of a stage's instruction `i` into the registers of A of its parity."""
    for block in T.unroll(plan.config.row_blocks):
        T.cuda.func_call(
            plan.quarter.name,
            operands.a.ptr_to([plan.a_at(parity, block, i)]),
            operands.kept.ptr_to([KEPT_WORDS * block]),
            operands.smem.ptr_to([
                stage * plan.stage_bytes + plan.weight_offset
                + (thread.consumer * plan.config.row_blocks + block) * plan.block_bytes
                + i // 4 * plan.tile_bytes
            ]),
            operands.rows.ptr_to([4 * block]),
            thread.index,
            i % 4,
            source_code=plan.quarter.source,
        )  # fmt: skip


@T.inline
def multiply_and_widen(plan, accumulator, operands, cursor, parity, started, more, thread):
    """Consumer: the products of a stage, and the weights of the next one if there are more."""
    x: T.uint64 = operands.first_x + descriptor_step(cursor.stage * plan.stage_bytes)
    current: T.int32 = cursor.stage
    T.ptx.wgmma.fence.sync.aligned()
    for i in T.unroll(plan.unit_instructions):
        for block in T.unroll(plan.config.row_blocks):
            registers = T.meta_var([operands.a[plan.a_at(parity, block, i) + r] for r in range(4)])
            T.evaluate(
                plan.atom.call(
                    accumulator, block * plan.atom.d_registers, registers,
                    x + descriptor_step(plan.x_step(i)), (i > 0) | started,
                )
            )  # fmt: skip
        T.ptx.wgmma.commit_group.sync.aligned()
        if i == 0:
            # The first product of the stage before has read its registers.
            T.ptx.wgmma.wait_group.sync.aligned(min(plan.unit_instructions, _MOST_PENDING))
            next_stage(plan, cursor)
            if more:
                cursor.wait()
        if i == 1:
            # All of them have.
            T.ptx.wgmma.wait_group.sync.aligned(2)
            if started:
                leave(plan, cursor.ring, cursor.held.stage, thread.lane)
            cursor.held.stage = current
        if more:
            widen_quarter(plan, operands, 1 - parity, cursor.stage, i, thread)


@T.inline
def interleaved_loop(plan, accumulator, operands, cursor, piece, thread):
    """Consumer: all products of a piece of an output tile."""
    cursor.wait()
    convert(plan, operands, 0, cursor.stage, thread)
    for pair in T.serial(piece.portions - 1):
        for parity in T.unroll(2):
            started = T.meta_var((pair > 0) | (parity > 0))
            multiply_and_widen(plan, accumulator, operands, cursor, parity, started, True, thread)
    multiply_and_widen(plan, accumulator, operands, cursor, 0, piece.portions > 1, True, thread)
    multiply_and_widen(plan, accumulator, operands, cursor, 1, True, False, thread)
    T.ptx.wgmma.wait_group.sync.aligned(0)
    leave(plan, cursor.ring, cursor.held.stage, thread.lane)
