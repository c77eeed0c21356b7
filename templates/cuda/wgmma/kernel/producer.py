"""The producer threads of the wgmma pipeline: TMA into stages, slots and weights that stay."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.launch.dependent_launch import (
    start_successor,
    wait_for_predecessors,
)
from autoq.templates.cuda.device.launch.place import TilePlace
from autoq.templates.cuda.device.memory.cluster import wait_for_cluster
from autoq.templates.cuda.device.memory.ring import RingCursor, RingPosition
from autoq.templates.cuda.device.memory.tma import LOAD_BULK, Delivery, load_tiled, tma_load
from autoq.templates.cuda.wgmma.config import Operand
from autoq.templates.cuda.wgmma.kernel.exchange import expect_partials
from autoq.templates.cuda.wgmma.kernel.pieces import walk_of


@T.inline
def load_weights(plan, smem, offset, weight, n, step, to, full):
    """Producer thread: the weights of a step of the reduction, packed as they lie at `offset`."""
    T.evaluate(
        tma_load(
            LOAD_BULK, to, smem.ptr_to([offset]),
            weight.ptr_to([(n * plan.layout.stages + step) * plan.b_stage_values]),
            T.uint32(plan.memory.b_stage_bytes), full,
        )
    )  # fmt: skip


@T.inline
def load_staying_weights(plan, smem, ring, weight, n, step, stage):
    """Producer thread: the weights of a stage's step of the reduction, to where they stay."""
    offset = T.meta_var(plan.memory.b_offset + step * plan.memory.b_stage_bytes)
    load_weights(
        plan, smem, offset, weight, n, step, Delivery(once=plan.looks_ahead), ring.full(stage)
    )


@T.inline
def load_own_weights(plan, smem, base, weight, place, k, full):
    """Producer thread: the weights of stage k of a tile's reduction, of the stage at `base`."""
    to = T.meta_var(plan.delivery(Operand.WEIGHTS))
    offset = T.meta_var(base + plan.memory.b_offset)
    load_weights(plan, smem, offset, weight, place.n, k, to, full)


@T.inline
def load_stage(plan, smem, cursor, x_map, weight, place, k, weights_first=False):
    """Producer thread: both operands of stage k of a tile's reduction, where the cursor is.

    weights_first: they come before the wait for predecessors, which the activations need.
    """
    base = T.meta_var(cursor.stage * plan.config.stage_bytes)
    full = T.meta_var(cursor.full)
    if weights_first:
        load_own_weights(plan, smem, base, weight, place, k, full)
        wait_for_predecessors()
        start_successor()
    for i in T.unroll(plan.config.per_stage):
        sub_tile = T.meta_var(k * plan.config.per_stage + i)
        a_tile = T.meta_var(smem.ptr_to([base + i * plan.memory.a_bytes]))
        if plan.loads(Operand.ACTIVATIONS, cursor.stage, place.rank):
            to = T.meta_var(plan.delivery(Operand.ACTIVATIONS))
            T.evaluate(plan.load.fetch(a_tile, T.address_of(x_map), place.m, sub_tile, full, to))
    if not weights_first:  # noqa: SIM102
        if plan.loads(Operand.WEIGHTS, cursor.stage, place.rank):
            load_own_weights(plan, smem, base, weight, place, k, full)


@T.inline
def load_early(plan, smem, cursor, x_map, weight, place):
    """The thread that initialised the barriers of full stages: the first stages of a first tile."""
    transaction = T.meta_var(T.uint32(plan.memory.transaction))
    first = T.meta_var(plan.first_stage(place.rank))
    T.ptx.mbarrier.arrive.expect_tx.shared.b64(cursor.full, transaction)
    load_stage(plan, smem, cursor, x_map, weight, place, first, weights_first=True)
    cursor.advance()
    for step in T.serial(1, plan.stages_ahead):
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(cursor.full, transaction)
        load_stage(plan, smem, cursor, x_map, weight, place, first + step)
        cursor.advance()


@T.inline
def produce(plan, smem, cursor, x_map, weight, place, piece, first):
    """Producer thread: fill the stages of a piece of an output tile, but for those that came early.

    first: whether it is the block's first one, with which come weights that stay.
    """
    begin = T.meta_var(plan.stages_on_the_way(first))
    for step in T.serial(begin, piece.portions if plan.config.stream_k else plan.block_stages):
        k = T.meta_var(plan.first_stage(place.rank, piece) + step)
        cursor.acquire(plan.expected(first))
        load_stage(plan, smem, cursor, x_map, weight, place, k)
        if plan.config.weights_stay and plan.layout.stages > plan.config.stages:  # noqa: SIM102
            if first & (step >= plan.early_stages):
                load_staying_weights(plan, smem, cursor.ring, weight, place.n, step, cursor.stage)
        cursor.advance()


@T.inline
def load_operands(plan, smem, cursor, table, residual_map, place):
    """Producer thread: scale and bias of a tile's channels, and its residuals if ahead."""
    cursor.acquire(plan.memory.slot_transaction)
    base = T.meta_var(plan.memory.slot_offset + cursor.stage * plan.config.slot_bytes)
    T.ptx[LOAD_BULK](
        smem.ptr_to([base + plan.memory.residual_bytes]),
        table.ptr_to([place.n * plan.memory.table_words]),
        T.uint32(4 * plan.memory.table_words), cursor.full,
    )  # fmt: skip
    box = T.meta_var(plan.config.residual_box)
    for i in T.unroll(plan.config.block_n // box if plan.residual_ahead else 0):
        T.evaluate(
            tma_load(
                load_tiled(2), plan.delivery(Operand.RESIDUAL),
                smem.ptr_to([base + i * (box * plan.config.block_m)]), T.address_of(residual_map),
                place.n * plan.config.block_n + i * box, place.m * plan.config.block_m, cursor.full,
            )
        )  # fmt: skip
    cursor.advance()


@T.inline
def load_first_operands(plan, smem, slots, table, residual_map, block, rank):
    """A second producer thread, which initialised the slots' barriers: those of the first tile."""
    if plan.bounded:
        slot = T.meta_var(RingPosition(plan.config.slots))
        slot.start(0)
        if plan.residual_ahead:
            wait_for_predecessors()
        m, n = plan.tile(block, rank)
        place = T.meta_var(TilePlace(m, n, rank))
        cursor = T.meta_var(RingCursor(slots, slot))
        load_operands(plan, smem, cursor, table, residual_map, place)


@T.inline
def load_tile_operands(plan, smem, slots, table, residual_map, block, rank):
    """A second producer thread: the operands of all pieces of a block, but for one that came early.

    If it takes any.
    """
    if plan.bounded:
        slot = T.meta_var(RingPosition(plan.config.slots))
        slot.start(plan.slots_ahead)
        cursor = T.meta_var(RingCursor(slots, slot))
        walk = T.meta_var(walk_of(plan))
        walk.start(block)
        if plan.slots_ahead > 0:
            walk.advance()
        elif plan.residual_ahead:
            wait_for_predecessors()
        while walk.more:
            m, n = plan.tile(walk.tile, rank)
            place = T.meta_var(TilePlace(m, n, rank))
            load_operands(plan, smem, cursor, table, residual_map, place)
            walk.advance()


@T.inline
def load_first_weights(plan, smem, ring, weight, n):
    """A third producer thread: weights that stay, for all stages that are empty at the start.

    They arrive with the activations of the block's first tile, whose barriers expect both. It
    needs no wait: nothing that came before writes weights, and no stage was ever filled.
    """
    for step in T.serial(plan.early_stages):
        load_staying_weights(plan, smem, ring, weight, n, step, step)


@T.inline
def load_stages(plan, smem, ring, sources, block, rank):
    """The first producer thread: the stages of all pieces of its block, but for the early ones."""
    head = T.meta_var(RingPosition(plan.config.stages))
    head.start(plan.stages_ahead)
    walk = T.meta_var(walk_of(plan))
    walk.start(block)
    wait_for_predecessors()
    start_successor()
    while walk.more:
        m, n = plan.tile(walk.tile, rank)
        place = T.meta_var(TilePlace(m, n, rank))
        cursor = T.meta_var(RingCursor(ring, head))
        first = T.meta_var(walk.tile == block)
        produce(plan, smem, cursor, sources.x_map, sources.weight, place, walk, first)
        walk.advance()
    if plan.receivers > 1:
        ring.wait_until_left(head)


@T.inline
def feed(plan, smem, ring, slots, sources, thread):
    """Producer warpgroup: stages, operands of tiles and weights that stay, by a thread each."""
    if plan.reallocates:
        T.ptx.setmaxnreg.dec.sync.aligned.u32(plan.config.registers.producer)
    if plan.config.grid.cluster > 1:
        wait_for_cluster()
    if (thread.warp == 0) & (T.cuda.elect_sync() != 0):
        load_stages(plan, smem, ring, sources, thread.block, thread.rank)
    if (thread.warp == 1) & (T.cuda.elect_sync() != 0):
        load_tile_operands(
            plan, smem, slots, sources.table, sources.residual_map, thread.block, thread.rank
        )
    if plan.config.weights_stay:  # noqa: SIM102
        if (thread.warp == 2) & (T.cuda.elect_sync() != 0):
            load_first_weights(plan, smem, ring, sources.weight, thread.block % plan.n_tiles)


@T.inline
def initialise_full(plan, ring):
    """One thread of the block: the barriers of the ring's full stages."""
    for stage in T.unroll(plan.config.stages):
        T.ptx.mbarrier.init.shared.b64(ring.full(stage), T.uint32(1))


@T.inline
def initialise_others(plan, ring, slots, rank):
    """One thread of the block: all other barriers."""
    for stage in T.unroll(plan.config.stages):
        T.ptx.mbarrier.init.shared.b64(ring.empty(stage), plan.empty_arrivals(stage, rank))
    if plan.bounded:
        slots.initialise(4 * plan.team_warpgroups)
    for i in T.unroll(plan.teams if plan.ping_pong else 0):
        T.ptx.mbarrier.init.shared.b64(
            ring.barriers.ptr_to([plan.memory.consumer_barriers + i]), T.uint32(4)
        )
    if plan.config.split_k > 1:
        expect_partials(plan, ring.barriers)
