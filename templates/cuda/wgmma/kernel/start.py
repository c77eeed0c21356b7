"""The start of a block of the wgmma pipeline: its barriers, and what it loads before it meets."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.launch.place import TilePlace
from autoq.templates.cuda.device.memory.cluster import arrive_at_cluster
from autoq.templates.cuda.device.memory.ring import (
    RingCursor,
    RingPosition,
    fence_barriers,
    publish_barriers,
)
from autoq.templates.cuda.device.memory.tma import prefetch_map
from autoq.templates.cuda.wgmma.kernel.producer import (
    initialise_full,
    initialise_others,
    load_early,
    load_first_operands,
)

START_BARRIER = 1
"""Named barrier behind the initialisation of the mbarriers."""


@T.meta_class
class Sources:
    """What a block loads from: tensor maps of activations and residuals, weights, tables."""

    def __init__(self, x_map, residual_map, weight, table):
        self.x_map = x_map
        self.residual_map = residual_map
        self.weight = weight
        self.table = table


@T.meta_class
class Starter:
    """A thread at its block's start: its warpgroup and warp, the block and its rank."""

    def __init__(self, warpgroup, warp, block, rank):
        self.warpgroup = warpgroup
        self.warp = warp
        self.block = block
        self.rank = rank

    def is_of(self, warp):
        """Whether it is one of a warp of the first warpgroup."""
        return (self.warpgroup == 0) & (self.warp == warp)

    def meets(self, plan):
        """Whether its warp uses barriers."""
        return (self.warpgroup > 0) | (self.warp < plan.starting_warps)


@T.inline
def prefetch_maps(plan, sources, thread):
    """A thread of a warp that has nothing else to do: the first load finds its tensor map near."""
    if thread.is_of(3):  # noqa: SIM102
        if T.cuda.elect_sync() != 0:
            T.evaluate(prefetch_map(sources.x_map))
            if plan.residual_ahead:
                T.evaluate(prefetch_map(sources.residual_map))


@T.inline
def ask_ahead(plan, weights, thread, block):
    """A thread of that warp asks for constants of kernels to come, before its block has begun."""
    if plan.looks_ahead:  # noqa: SIM102
        if thread.is_of(3):  # noqa: SIM102
            if T.cuda.elect_sync() != 0:
                T.cuda.func_call(
                    plan.look_ahead.name,
                    weights.ptr_to([0]),
                    block,
                    source_code=plan.look_ahead.source,
                )


@T.inline
def start_in_one_warp(plan, ring, slots, sources, thread):
    """One thread initialises all barriers."""
    if thread.is_of(0):
        if T.cuda.elect_sync() != 0:
            initialise_full(plan, ring)
            initialise_others(plan, ring, slots, thread.rank)
            fence_barriers()
        T.ptx.bar.arrive(T.uint32(START_BARRIER), T.uint32(plan.started_threads))
    elif thread.meets(plan):
        T.ptx.bar.sync(T.uint32(START_BARRIER), T.uint32(plan.started_threads))


@T.inline
def start_with_loads(plan, smem, ring, slots, sources, thread):
    """Two threads initialise barriers, and each asks at once for what needs its own only."""
    if thread.is_of(0):
        if T.cuda.elect_sync() != 0:
            initialise_full(plan, ring)
            publish_barriers()
            m, n = plan.tile(thread.block, thread.rank)
            place = T.meta_var(TilePlace(m, n, thread.rank))
            head = T.meta_var(RingPosition(plan.config.stages))
            head.start(0)
            cursor = T.meta_var(RingCursor(ring, head))
            load_early(plan, smem, cursor, sources.x_map, sources.weight, place)
    elif thread.is_of(1):  # noqa: SIM102
        if T.cuda.elect_sync() != 0:
            initialise_others(plan, ring, slots, thread.rank)
            publish_barriers()
            load_first_operands(
                plan, smem, slots, sources.table, sources.residual_map, thread.block, thread.rank
            )
    if thread.meets(plan):
        T.ptx.bar.sync(T.uint32(START_BARRIER), T.uint32(plan.started_threads))


@T.inline
def start_block(plan, smem, ring, slots, sources, thread):
    """All threads: barriers are there for all, and with `early_loads` the first stages come."""
    prefetch_maps(plan, sources, thread)
    if plan.config.early_loads > 0:
        start_with_loads(plan, smem, ring, slots, sources, thread)
    else:
        start_in_one_warp(plan, ring, slots, sources, thread)
    if plan.config.grid.cluster > 1:
        arrive_at_cluster()
