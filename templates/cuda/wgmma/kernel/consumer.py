"""The consumers of the wgmma pipeline: warpgroups that multiply tiles and write their outputs."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.launch.dependent_launch import wait_for_predecessors
from autoq.templates.cuda.device.launch.place import ConsumerThread, TilePlace
from autoq.templates.cuda.device.memory.cluster import wait_for_cluster
from autoq.templates.cuda.device.memory.parts import PartSums
from autoq.templates.cuda.device.memory.ring import RingCursor, RingPosition
from autoq.templates.cuda.device.mma.descriptors import encode_descriptor
from autoq.templates.cuda.wgmma.kernel.copies import read_numbers
from autoq.templates.cuda.wgmma.kernel.exchange import clear_tile, exchange
from autoq.templates.cuda.wgmma.kernel.multiply import GroupSums, Operands, multiply
from autoq.templates.cuda.wgmma.kernel.pieces import pass_over, walk_of
from autoq.templates.cuda.wgmma.kernel.store import look_at_expansion, store
from autoq.templates.cuda.wgmma.kernel.tail import Finish, finish_tile
from autoq.templates.cuda.wgmma.weighing import weigh_tile
from autoq.templates.epilogue.cuda.fragments.range_tile import quantise_tile
from autoq.templates.epilogue.cuda.fragments.thread_share import ThreadShare
from autoq.templates.epilogue.cuda.fragments.wgmma_tile import (
    fetch_residuals,
    keep_start,
    read_limits,
    start_tile,
)
from autoq.templates.epilogue.cuda.parameters.arrays import EpilogueArrays
from autoq.templates.epilogue.cuda.short_forms.long_table import await_table, copy_table


@T.meta_class
class Shared:
    """A block's shared memory: all of it, its barriers, the ring of stages and that of slots."""

    def __init__(self, smem, barriers, ring, slots):
        self.smem, self.barriers = smem, barriers
        self.ring, self.slots = ring, slots


@T.meta_class
class PipelineArrays:
    """Arrays in global memory of every epilogue, as `EpilogueArrays` has them."""

    def __init__(self, bias, scale, scalars, residual, y, row_scale):
        self.bias, self.scale, self.scalars = bias, scale, scalars
        self.residual, self.y, self.row_scale = residual, y, row_scale

    def beside(self, words, of_run):
        """The same with a thread's registers of residuals and of the numbers of a run."""
        return EpilogueArrays(
            self.bias, self.scale, self.scalars, self.residual, words, self.y, self.row_scale,
            of_run,
        )  # fmt: skip


@T.meta_class
class RunArrays:
    """What only some kernels have: None, or no arrays, where others have none.

    numbers: of a run; ranges: outputs that are quantised by their range write; parts: of tiles
    that several blocks share; weighed: of a weighed product; expanded: what says which columns of y
    are those of the product. block: the block among all copies'.
    """

    def __init__(self, numbers, ranges, parts, weighed, block, expanded):
        self.numbers, self.ranges, self.parts = numbers, ranges, parts
        self.weighed, self.block, self.expanded = weighed, block, expanded


@T.inline
def describe_operands(plan, smem, first_row, first_a, first_b):
    """Descriptors of the first stage's rows of activations and weights."""
    T.evaluate(
        encode_descriptor(
            first_a, smem.ptr_to([first_row * plan.config.row_bytes]), plan.config.row_bytes,
            8 * plan.config.row_bytes, plan.memory.a_bytes,
        )
    )  # fmt: skip
    T.evaluate(
        encode_descriptor(
            first_b, smem.ptr_to([plan.memory.b_offset]), plan.config.row_bytes,
            8 * plan.config.row_bytes, plan.memory.b_bytes,
        )
    )  # fmt: skip


@T.inline
def read_numbers_of_layer(plan, smem, limits, arrays, run, thread):
    """Consumer: the epilogue's constants, and behind the kernel before the numbers of this run."""
    if plan.bounded:
        read_limits(plan, limits, arrays.scalars)
    elif plan.uniform:
        keep_start(plan, smem, limits, thread)
    if plan.epilogue.table:
        copy_table(plan, smem, arrays.scalars, thread.lane)
    wait_for_predecessors()
    if plan.epilogue.dynamic:
        read_numbers(arrays.of_run, run.numbers)


@T.inline
def begin_tile(plan, accumulator, shared, slot, finish, share, walk):
    """Consumer warpgroup: the sums that a tile starts with, and residuals that come early."""
    if plan.config.parts > 1:
        clear_tile(plan, accumulator)
    if plan.bounded:
        shared.slots.wait(slot)
    if plan.has_limits:
        if plan.begins_tile(share.part, walk):
            start_tile(
                plan,
                accumulator,
                shared.smem,
                finish.slot,
                finish.arrays.bias,
                share,
            )
        elif plan.config.stream_k:
            clear_tile(plan, accumulator)
    if plan.residual_early:
        fetch_residuals(plan, finish.arrays, share)


@T.inline
def end_tile(plan, accumulator, cursor, operands, finish, share, walk, run):
    """Consumer warpgroup: outputs of a tile whose products have run, but for those of its tail."""
    if plan.epilogue.table:
        await_table()
    if plan.config.tail_stages > 0:
        finish_tile(plan, accumulator, operands, cursor, share.place.rank, share, finish, walk)
    elif plan.config.stream_k:
        finish.parts.settle(accumulator, walk)
        if walk.ends_tile:
            store(plan, accumulator, finish, share)
    elif plan.epilogue.by_range:
        found = T.alloc_local((3,), "float32")
        quantise_tile(
            plan, accumulator, finish.arrays, finish.smem, share, run.ranges, run.block, found
        )
    else:
        store(plan, accumulator, finish, share)
    if plan.weighing is not None:
        weigh_tile(plan, accumulator, run.weighed, finish.smem, share)


@T.inline
def leave_tile(plan, slots, slot, walk, tail, lane):
    """Consumer warpgroup: its operands may be replaced, and it goes on to its next tile."""
    if plan.bounded:
        if plan.replaces_operands:
            slots.release_read(slot.stage, lane)
        slot.skip(plan.teams)
    walk.advance()
    if plan.ping_pong:
        if plan.config.stream_k:
            pass_over(walk, tail, plan.teams - 1)
        else:
            tail.skip((plan.teams - 1) * plan.layout.stages)


@T.inline
def consume(plan, shared, given, run, limits, at, lane):
    """Consumer warpgroup: all tiles of its block, or those of its team, one after the other."""
    if plan.reallocates:
        T.ptx.setmaxnreg.inc.sync.aligned.u32(plan.config.registers.consumer)
    accumulator = T.alloc_local((plan.config.m_blocks * plan.block_accumulators,), "uint32")
    words = T.alloc_local((plan.residual_registers,), "uint32")
    if plan.grouped:
        sums = T.alloc_local((plan.config.accumulators,), "float32")
    else:
        sums = T.meta_var(accumulator)
    consumer = T.meta_var(at.warpgroup - 1)
    block, rank = T.meta_var(at.block), T.meta_var(at.rank)
    team = T.meta_var(consumer if plan.ping_pong else 0)
    part = T.meta_var(plan.part(rank, consumer))
    first_row: T.int32 = plan.first_row(consumer)
    first_a: T.uint64 = T.uint64(0)
    first_b: T.uint64 = T.uint64(0)
    describe_operands(plan, shared.smem, first_row, first_a, first_b)
    operands = T.meta_var(Operands(first_a, first_b))
    tail = T.meta_var(RingPosition(plan.config.stages))
    previous = T.meta_var(RingPosition(plan.config.stages))
    tail.start(0 if plan.config.stream_k else plan.first_step(consumer))
    previous.start(0)
    cursor = T.meta_var(RingCursor(shared.ring, tail, previous))
    thread = T.meta_var(ConsumerThread(consumer, at.warp, lane))
    of_run = T.alloc_local((2 if plan.epilogue.dynamic else 1,), "float32")
    arrays = T.meta_var(given.beside(words, of_run))
    turn: T.int32 = 0
    walk = T.meta_var(walk_of(plan, team, plan.teams))
    walk.start(block)
    if plan.config.stream_k:
        row = T.meta_var(0 if plan.ping_pong else consumer)
        parts = T.meta_var(PartSums(plan.parts, run.parts, block, rank, row, thread))
        pass_over(walk, tail, team)
    else:
        parts = T.meta_var(None)
    slot = T.meta_var(RingPosition(plan.config.slots))
    slot.start(team)
    finish = T.meta_var(Finish(arrays, shared.smem, slot.stage, limits, parts, run.expanded))
    read_numbers_of_layer(plan, shared.smem, limits, arrays, run, thread)
    if plan.config.grid.cluster > 1:
        wait_for_cluster()
    while walk.more:
        m, n = plan.tile(walk.tile, rank)
        share = T.meta_var(ThreadShare(TilePlace(m, n, rank), thread, first_row, part))
        begin_tile(plan, accumulator, shared, slot, finish, share, walk)
        look_at_expansion(plan, run.expanded, n, lane)
        if plan.ping_pong:
            T.cuda.mbarrier_wait(
                shared.barriers.ptr_to([plan.memory.consumer_barriers + consumer]),
                turn ^ T.cast(consumer == 0, "int32"),
            )
            turn = turn ^ 1
        groups = T.meta_var(GroupSums(sums, arrays, n))
        multiply(plan, accumulator, groups, operands, cursor, walk, rank, thread)
        if plan.config.parts > 1:
            exchange(plan, accumulator, shared.smem, shared.barriers, rank, thread)
        end_tile(plan, accumulator, cursor, operands, finish, share, walk, run)
        leave_tile(plan, shared.slots, slot, walk, tail, lane)
