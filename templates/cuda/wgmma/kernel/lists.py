"""Producers and consumers of a product whose tiles are corrected by lists before they leave."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.launch.dependent_launch import (
    start_successor,
    wait_for_predecessors,
)
from autoq.templates.cuda.device.launch.place import TilePlace
from autoq.templates.cuda.device.memory.ring import RingCursor, RingPosition
from autoq.templates.cuda.wgmma.compensation.compensation import pointer, pointers_of_lists
from autoq.templates.cuda.wgmma.kernel.pieces import walk_of
from autoq.templates.cuda.wgmma.kernel.producer import produce

_BARRIER = 3
"""Named barrier of the producer's warps."""


@T.inline
def produce_with_lists(plan, smem, ring, x_map, weight, arrays, block, rank, warp):
    """Producer warpgroup: one thread loads operands, then all warps gather for each tile's lists.

    They meet before and behind it, so that nobody waits for a stage more than once around the ring
    ahead.
    """
    of_lists = T.meta_var(pointers_of_lists(arrays))
    head = T.meta_var(RingPosition(plan.config.stages))
    issued = T.meta_var(RingPosition(plan.config.stages))
    head.start(0)
    walk = T.meta_var(walk_of(plan))
    walk.start(block)
    wait_for_predecessors()
    start_successor()
    while walk.more:
        m, n = plan.tile(walk.tile, rank)
        if (warp == 0) & (T.cuda.elect_sync() != 0):
            place = T.meta_var(TilePlace(m, n, rank))
            issued.stage = head.stage
            issued.phase = head.phase
            cursor = T.meta_var(RingCursor(ring, issued))
            produce(plan, smem, cursor, x_map, weight, place, walk, walk.tile == block)
        if plan.compensation.ahead:  # noqa: SIM102
            if warp > 0:
                fetch = T.meta_var(plan.compensation.functions[2])
                T.cuda.func_call(fetch.name, *of_lists, m, n, source_code=fetch.source)
        head.skip(plan.block_stages)
        T.cuda.warp_sync()
        T.ptx.bar.sync(T.uint32(_BARRIER), T.uint32(128))
        gather = T.meta_var(plan.compensation.functions[0])
        gathered: T.int32 = T.cuda.func_call(
            gather.name, smem.ptr_to([0]), ring.full(0), *of_lists, m, n, head.stage, head.phase,
            source_code=gather.source, return_type="int32",
        )  # fmt: skip
        T.ptx.bar.sync(T.uint32(_BARRIER), T.uint32(128))
        head.skip(gathered)
        walk.advance()
    if plan.receivers > 1:  # noqa: SIM102
        if (warp == 0) & (T.cuda.elect_sync() != 0):
            ring.wait_until_left(head)


@T.inline
def compensate_tile(plan, accumulator, smem, cursor, arrays, y, place):
    """Consumer warpgroup: add the lists to its rows of a tile, whose sums it holds, and store."""
    compensate = T.meta_var(plan.compensation.functions[1])
    passed: T.int32 = T.cuda.func_call(
        compensate.name, accumulator.ptr_to([0]), smem.ptr_to([0]), cursor.ring.full(0),
        pointer(arrays, "a_scale"), pointer(arrays, "b_scale"), pointer(arrays, "bias"),
        pointer(arrays, "bands_of_a"), pointer(arrays, "bands_of_b"), y.ptr_to([0]),
        place.m, place.n, place.rank, cursor.at.stage, cursor.at.phase,
        source_code=compensate.source, return_type="int32",
    )  # fmt: skip
    cursor.at.skip(passed)
