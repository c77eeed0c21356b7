"""The producer thread of the mixed-input product: rows of x and tiles of weights into stages."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.launch.dependent_launch import (
    start_successor,
    wait_for_predecessors,
)
from autoq.templates.cuda.device.launch.walk import walk_of
from autoq.templates.cuda.device.memory.cluster import wait_for_cluster
from autoq.templates.cuda.device.memory.ring import RingCursor, RingPosition
from autoq.templates.cuda.device.memory.tma import LOAD_BULK, Delivery, tma_load
from autoq.templates.cuda.mixed.place import ProductPlace


@T.inline
def produce(plan, smem, cursor, x_map, weight, place, piece, start):
    """Producer thread: fill the stages of a piece of an output tile; start: of its team."""
    first_stage = T.meta_var(2 * plan.config.k_groups * piece.first)
    for turn in T.serial(2 * plan.config.k_groups * piece.portions):
        stage = T.meta_var(first_stage + turn)
        start.pass_on(piece, turn)
        cursor.acquire(plan.transaction)
        base = T.meta_var(cursor.stage * plan.stage_bytes)
        full = T.meta_var(cursor.full)
        for step in T.unroll(plan.config.steps):
            first = T.meta_var(plan.first_row(place.rank))
            at = T.meta_var(stage * plan.config.steps + step)
            coordinates = T.meta_var(
                plan.rows.coordinates(at, place.m * plan.config.block_m + first, place, plan.step_k)
            )
            T.evaluate(
                tma_load(
                    plan.rows.instruction, Delivery(plan.config.cluster),
                    smem.ptr_to([base + step * plan.config.x_bytes + first * 128]),
                    T.address_of(x_map), *coordinates, full, *plan.rows.offsets(at),
                )
            )  # fmt: skip
        for block in T.unroll(plan.config.blocks):
            T.evaluate(
                tma_load(
                    LOAD_BULK, Delivery(1, plan.config.weights_once),
                    smem.ptr_to([base + plan.weight_offset + block * plan.block_bytes]),
                    weight.ptr_to([plan.weight_at(plan.weight_tile(place), block, stage)]),
                    T.uint32(plan.block_bytes), full,
                )
            )  # fmt: skip
        cursor.advance()


@T.inline
def produce_all(plan, smem, ring, x_map, weight, start, at):
    """Producer thread of a team: the stages of all its pieces."""
    cta, rank, grid = T.meta_var(at.block), T.meta_var(at.rank), T.meta_var(at.grid)
    head = T.meta_var(RingPosition(plan.config.stages, start.team * plan.config.stages))
    head.start(0)
    walk = T.meta_var(walk_of(plan, grid, start.team, plan.config.teams))
    walk.start(cta)
    wait_for_predecessors()
    start_successor()
    start.wait(walk)
    while walk.more:
        m, n = plan.tile(walk.tile, rank)
        place = T.meta_var(ProductPlace(m, n, rank, plan.product(walk.tile)))
        produce(plan, smem, RingCursor(ring, head), x_map, weight, place, walk, start)
        walk.advance()
    if plan.config.cluster > 1:
        ring.wait_until_left(head)


@T.inline
def feed(plan, smem, ring, x_map, weight, start, at):
    """Producer warpgroup: a thread of a warp for each team."""
    T.ptx.setmaxnreg.dec.sync.aligned.u32(plan.config.registers.producer)
    if plan.loads(at.warp) & (T.cuda.elect_sync() != 0):
        produce_all(plan, smem, ring, x_map, weight, start, at)
    if plan.config.split_cluster:
        wait_for_cluster()
