"""The consumers of the halo kernels: warpgroups that multiply tiles and store them."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.launch.dependent_launch import wait_for_predecessors
from autoq.templates.cuda.device.launch.place import ConsumerThread, TilePlace
from autoq.templates.cuda.device.memory.ring import RingCursor, RingPosition
from autoq.templates.cuda.halo.operands import Operands
from autoq.templates.cuda.halo.pipeline import multiply, release_last
from autoq.templates.epilogue.cuda.parameters.lookups import fill_table


@T.meta_class
class HaloArrays:
    """Arrays of the epilogue in global memory; y_map: of y, None where stores need none."""

    def __init__(self, bias, scale, scalars, residual, y, y_map, row_scale):
        self.bias, self.scale, self.scalars = bias, scale, scalars
        self.residual, self.y, self.y_map = residual, y, y_map
        self.row_scale = row_scale

    def store(self, plan):
        """How a consumer stores its tiles, in the way of the plan."""
        return plan.store(
            plan, self.bias, self.scale, self.scalars, self.residual, self.y, self.y_map,
            self.row_scale,
        )  # fmt: skip


@T.inline
def consume(plan, shared, arrays, at):
    """Consumer warpgroup: all tiles of its block, or those of its team."""
    T.ptx.setmaxnreg.inc.sync.aligned.u32(plan.config.registers.consumer)
    tiling, config = T.meta_var(plan.tiling), T.meta_var(plan.config)
    cta, rank, lane = T.meta_var(at.block), T.meta_var(at.rank), T.meta_var(at.lane)
    accumulator = T.alloc_local((tiling.accumulators,), "uint32")
    store = T.meta_var(arrays.store(plan))
    consumer = T.meta_var(at.warpgroup - 1)
    first_block: T.int32 = consumer * plan.blocks if config.cooperative else 0
    operands = T.meta_var(Operands(plan))
    operands.start(plan, shared.smem, first_block)
    first_tile = T.meta_var(0 if config.cooperative else consumer)
    slot = T.meta_var(RingPosition(config.halo_stages))
    stage = T.meta_var(RingPosition(plan.ring_stages))
    held_slot = T.meta_var(RingPosition(config.halo_stages))
    held_stage = T.meta_var(RingPosition(plan.ring_stages))
    slot.start(first_tile * tiling.tile.chunks)
    stage.start(first_tile * tiling.stages_per_tile)
    held_slot.start(0)
    held_stage.start(0)
    slots = T.meta_var(RingCursor(shared.halo, slot, held_slot))
    stages = T.meta_var(RingCursor(shared.weights, stage, held_stage))
    thread = T.meta_var(ConsumerThread(consumer, at.warp, lane))
    turn: T.int32 = 0
    work: T.int32 = cta + first_tile * tiling.grid
    if tiling.workload.epilogue.table:
        fill_table(plan, shared.smem, arrays.scalars, lane)
    store.start(plan, tiling.tile_of(cta)[1], first_block, thread)
    if plan.resident and not config.in_parts:
        T.cuda.mbarrier_wait(shared.barriers.ptr_to([plan.weight_barriers]), 0)
    if plan.store.waits:
        wait_for_predecessors()
    while work < tiling.work:
        m, n = tiling.tile_of(work)
        store.start_tile(plan, n, first_block, thread)
        if config.turns:
            T.cuda.mbarrier_wait(
                shared.barriers.ptr_to([plan.turn_barriers + consumer]),
                turn ^ T.cast(consumer == 0, "int32"),
            )
            turn = turn ^ 1
        multiply(plan, accumulator, operands, slots, stages, work, thread)
        release_last(plan, slots, stages, lane)
        store.store(plan, accumulator, shared.smem, TilePlace(m, n, rank), first_block, thread)
        if plan.teams > 1:
            slot.skip((plan.teams - 1) * tiling.tile.chunks)
            stage.skip((plan.teams - 1) * tiling.stages_per_tile)
        work = work + plan.teams * tiling.grid
    store.finish(thread)
