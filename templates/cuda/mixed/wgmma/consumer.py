"""The consumers of the mixed-input product: warpgroups that multiply tiles and store results."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.launch.dependent_launch import wait_for_predecessors
from autoq.templates.cuda.device.launch.place import ConsumerThread
from autoq.templates.cuda.device.launch.walk import walk_of
from autoq.templates.cuda.device.memory.cluster import wait_for_cluster
from autoq.templates.cuda.device.memory.parts import PartSums
from autoq.templates.cuda.device.memory.ring import RingCursor, RingPosition
from autoq.templates.cuda.device.mma.descriptors import encode_descriptor
from autoq.templates.cuda.mixed.place import ProductPlace
from autoq.templates.cuda.mixed.wgmma.groups import main_loop_of_groups
from autoq.templates.cuda.mixed.wgmma.multiply import Operands, add_groups, load_rows, main_loop
from autoq.templates.cuda.mixed.wgmma.store import TileResults, TileStore
from autoq.templates.cuda.mixed.wgmma.turns import ConsumerTurn


@T.meta_class
class Shared:
    """A block's shared memory, as bytes and as float32; its barriers and the ring over them.

    sums: where groups of consumers exchange theirs, None where there is one group.
    """

    def __init__(self, smem, words, barriers, ring, sums):
        self.smem, self.words = smem, words
        self.barriers, self.ring, self.sums = barriers, ring, sums


@T.meta_class
class Results:
    """What becomes of sums: the epilogue's functions and inputs, tensor maps of y, residuals."""

    def __init__(self, finishing, y_maps, inputs, residuals):
        self.finishing, self.y_maps = finishing, y_maps
        self.inputs, self.residuals = inputs, residuals

    def store(self, shared, scales, packed, turn):
        """How a consumer stores, with registers of a thread as `TileStore` has them."""
        return TileStore(
            self.finishing, (shared.smem, shared.words), self.y_maps, self.inputs, self.residuals,
            scales, packed, turn,
        )  # fmt: skip


@T.meta_class
class Shares:
    """How the blocks that share a tile add up: through their cluster, or workspaces, or neither."""

    def __init__(self, of_cluster, spaces):
        self.of_cluster, self.spaces = of_cluster, spaces

    def in_memory(self, plan, at, thread):
        """What a thread adds up through workspaces, None where there are none."""
        if not plan.config.parts_in_memory:
            return None
        return PartSums(plan.parts, self.spaces, at.block, at.rank, thread.consumer, thread)


@T.inline
def describe_operands(plan, smem, consumer, first_x, first_a):
    """Descriptors of the first stage's rows of x, and of weights that need no widening."""
    T.evaluate(encode_descriptor(first_x, smem.ptr_to([0]), 128, 1024))
    if not plan.workload.quantised:
        T.evaluate(
            encode_descriptor(
                first_a,
                smem.ptr_to([
                    plan.weight_offset + consumer * plan.config.row_blocks * plan.block_bytes
                ]),
                128, 1024,
            )
        )  # fmt: skip


@T.inline
def store_tile(plan, accumulator, store, results, shares, parts, walk):
    """Consumer of the first group: results, by the block that finishes the tile or these rows."""
    if plan.config.split_cluster:
        shares.of_cluster.settle(accumulator, results.thread)
        if shares.of_cluster.finishes(results.thread.consumer):
            store.store(results)
    elif plan.config.splits:
        parts.settle(accumulator, walk)
        if walk.ends_tile:
            store.store(results)
    else:
        store.store(results)


@T.inline
def consume(plan, shared, constants, given, shares, at):
    """Consumer warpgroup: all tiles of its team, or every other one where consumers take turns."""
    T.ptx.setmaxnreg.inc.sync.aligned.u32(plan.config.registers.consumer)
    cta, rank, grid = T.meta_var(at.block), T.meta_var(at.rank), T.meta_var(at.grid)
    consumer = T.meta_var((at.warpgroup - 1) % plan.config.row_team)
    group = T.meta_var((at.warpgroup - 1) // plan.config.row_team)
    team = T.meta_var(plan.team(group))
    taker = T.meta_var(group if plan.config.turns else 0)
    alone = T.meta_var(plan.config.turns or plan.config.teams > 1)
    k_group = T.meta_var(0 if alone else group)
    own = T.meta_var(at.warpgroup - 1 if alone else consumer)
    thread = T.meta_var(ConsumerThread(consumer, at.warp, at.lane, own))
    accumulator = T.alloc_local((plan.config.row_blocks * plan.atom.d_registers,), "float32")
    if plan.groups is not None:
        sums_of_group = T.alloc_local((plan.config.accumulators,), "float32")
    a = T.alloc_local((2 * plan.config.row_blocks * plan.a_registers,), "uint32")
    rows = T.alloc_local((4 * plan.config.row_blocks,), "uint32")
    scales = T.alloc_local((4 * plan.config.row_blocks,), "float32")
    packed = T.alloc_local((4,), "uint32")
    turn = T.alloc_local((1,), "int32")
    turn[0] = 0
    first_x: T.uint64 = T.uint64(0)
    first_a: T.uint64 = T.uint64(0)
    describe_operands(plan, shared.smem, consumer, first_x, first_a)
    operands = T.meta_var(Operands(shared.smem, a, rows, first_a, first_x))
    tail = T.meta_var(RingPosition(plan.config.stages, team * plan.config.stages))
    tail.start(taker * plan.k_stages + k_group)
    cursor = T.meta_var(RingCursor(shared.ring, tail, RingPosition(plan.config.stages)))
    turn_of = T.meta_var(ConsumerTurn(plan, shared.barriers, taker))
    store = T.meta_var(given.store(shared, scales, packed, turn))
    if plan.config.split_cluster:
        wait_for_cluster()
    parts = T.meta_var(shares.in_memory(plan, at, thread))
    walk = T.meta_var(
        walk_of(plan, grid, team + taker, plan.config.teams * plan.config.turn_takers)
    )
    walk.start(cta)
    turn_of.start()
    given.residuals.start()
    wait_for_predecessors()
    while walk.more:
        m, n = plan.tile(walk.tile, rank)
        place = T.meta_var(ProductPlace(m, n, rank, plan.product(walk.tile)))
        results = T.meta_var(TileResults(plan, accumulator, place, thread))
        store.begin(results, k_group == 0)
        load_rows(plan, constants, scales, rows, place, thread)
        if plan.groups is not None:
            main_loop_of_groups(
                plan, accumulator, sums_of_group, shared.words, operands, cursor, walk, thread
            )
        else:
            turn_of.wait()
            main_loop(plan, accumulator, operands, cursor, walk, thread, turn_of)
        if plan.config.k_groups > 1:
            add_groups(plan, accumulator, shared.sums, k_group, thread)
        if k_group == 0:
            store_tile(plan, accumulator, store, results, shares, parts, walk)
        walk.advance()
        if plan.config.turns:
            tail.skip((plan.config.turn_takers - 1) * plan.k_stages)
    if thread.first:
        T.ptx.cp.async_.bulk.wait_group(0)
