"""The mixed-input product on wgmma: weights become A in registers while the tensor cores work.

A warp brings rows of x and tiles of weights into a ring of stages. Each consumer warpgroup widens
the weights of the next stage while its products of this one run, so that registers of A take turns;
D [weight rows, rows of x] has x as its B, in shared memory as it lies in memory. The scheme is that
of CUTLASS's mixed-input kernels with its operands swapped; `teams` is its ping-pong.
"""

from collections.abc import Sequence

from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.cuda.device.launch.dependent_launch import (
    overlapping,
    start_successor,
    wait_for_predecessors,
)
from autoq.templates.cuda.device.launch.place import ConsumerThread
from autoq.templates.cuda.device.launch.walk import walk_of
from autoq.templates.cuda.device.memory.cluster import arrive_at_cluster, wait_for_cluster
from autoq.templates.cuda.device.memory.parts import PartSums
from autoq.templates.cuda.device.memory.ring import (
    Ring,
    RingCursor,
    RingPosition,
    fence_barriers,
)
from autoq.templates.cuda.device.memory.tma import prefetch_map
from autoq.templates.cuda.device.mma.descriptors import encode_descriptor
from autoq.templates.cuda.mixed.finish import Finishing
from autoq.templates.cuda.mixed.place import ProductPlace
from autoq.templates.cuda.mixed.result_inputs import result_inputs
from autoq.templates.cuda.mixed.row_values import row_values
from autoq.templates.cuda.mixed.wgmma.cluster_parts import ClusterParts
from autoq.templates.cuda.mixed.wgmma.consumer import (
    Operands,
    RowConstants,
    add_groups,
    load_rows,
    main_loop,
)
from autoq.templates.cuda.mixed.wgmma.groups import main_loop_of_groups
from autoq.templates.cuda.mixed.wgmma.plan import MixedPlan
from autoq.templates.cuda.mixed.wgmma.producer import produce
from autoq.templates.cuda.mixed.wgmma.residuals import Residuals
from autoq.templates.cuda.mixed.wgmma.result_map import result_map
from autoq.templates.cuda.mixed.wgmma.store import TileResults, TileStore
from autoq.templates.cuda.mixed.wgmma.teams import TeamStart
from autoq.templates.cuda.mixed.wgmma.turns import ConsumerTurn, initialise_turns
from autoq.templates.program import Workspace


def build_kernel(plan: MixedPlan, spaces: Sequence[Workspace], grid: int) -> PrimFunc:
    """The kernel of so many clusters; its parameters are inputs, `packed`, workspaces, results."""
    work, config, registers = plan.workload, plan.config, plan.config.registers
    finishing = Finishing.of(work)

    @T.jit
    def main(
        x_ptr: T.handle,
        x_scale_ptr: T.Optional(T.handle),
        residual_ptr: T.Optional(T.handle),
        weight_ptr: T.handle,
        taken_ptr: T.Optional(T.handle),
        scale_ptr: T.Optional(T.handle),
        bias_ptr: T.Optional(T.handle),
        arrived_ptr: T.Optional(T.handle),
        parts_ptr: T.Optional(T.handle),
        y_ptr: T.handle,
        second_ptr: T.Optional(T.handle),
        third_ptr: T.Optional(T.handle),
    ):
        x = T.match_buffer(x_ptr, plan.rows.shape, work.in_dtype, align=16)
        weight = T.match_buffer(weight_ptr, (plan.weight_bytes,), "uint8", align=16)
        taken = T.meta_var(row_values(taken_ptr, "taken", plan.weight_rows, "uint32", weight))
        scale = T.meta_var(row_values(scale_ptr, "scale", plan.weight_rows, "float32", weight))
        bias = T.meta_var(row_values(bias_ptr, "bias", plan.weight_rows, "float32", weight))
        if arrived_ptr is not None:
            arrived = T.match_buffer(arrived_ptr, spaces[0].spec.shape, "int32", align=16)
            parts = T.match_buffer(parts_ptr, spaces[1].spec.shape, "float32", align=16)
        inputs = T.meta_var(
            result_inputs(work, plan.rows.y_shape, finishing.value, x_scale_ptr, None)
        )
        x_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed(
            plan.rows.encode, x_map, work.in_dtype, plan.rows.rank, x.data,
            *plan.rows.map(config, plan.step_k),
        )  # fmt: skip
        y_map = T.meta_var(result_map(plan, y_ptr, "y"))
        second_map = T.meta_var(result_map(plan, second_ptr, "second", y_map))
        third_map = T.meta_var(result_map(plan, third_ptr, "third", y_map))
        residual_map = T.meta_var(result_map(plan, residual_ptr, "residual", y_map))
        y_maps = T.meta_var([y_map, second_map, third_map][: plan.ys])

        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": 1})
        if config.cluster > 1:
            cta = T.cluster_id([grid])
            rank = T.cta_id_in_cluster([config.cluster])
        elif config.split_cluster:
            tile_of_cluster = T.cluster_id([plan.works])
            part = T.cta_id_in_cluster([config.split_k])
            cta = T.meta_var(tile_of_cluster + part * plan.works)
            rank = T.meta_var(0)
        else:
            cta = T.cta_id([grid])
            rank = T.meta_var(0)
        warpgroup = T.warpgroup_id([config.consumers + 1])
        warp = T.warp_id_in_wg([4])
        lane = T.lane_id([32])
        smem = T.alloc_buffer((plan.smem_bytes,), "uint8", scope="shared.dyn", align=1024)
        barriers = T.decl_buffer(
            (plan.barriers,), "uint64", data=smem.data,
            byte_offset=plan.barrier_offset, scope="shared.dyn",
        )  # fmt: skip
        words = T.decl_buffer(
            (plan.smem_bytes // 4,), "float32", data=smem.data, scope="shared.dyn"
        )
        ring = T.meta_var(Ring(barriers, 0, config.all_stages))
        loader = T.meta_var(plan.team(warp))
        start = T.meta_var(TeamStart(plan, barriers, loader, cta))
        residuals = T.meta_var(Residuals(plan, smem, barriers, residual_map))
        if config.split_cluster:
            cluster_parts = T.meta_var(ClusterParts(plan, smem, barriers, part))
        if config.k_groups > 1:
            sums = T.decl_buffer(
                (config.exchange_bytes // 4,), "float32", data=smem.data,
                byte_offset=plan.exchange_offset, scope="shared.dyn",
            )  # fmt: skip

        if (warpgroup == 0) & (warp == 0):  # noqa: SIM102
            if T.cuda.elect_sync() != 0:
                T.evaluate(prefetch_map(x_map))
                ring.initialise(4 * config.row_team * config.cluster)
                start.initialise()
                residuals.initialise()
                initialise_turns(plan, barriers)
                if config.split_cluster:
                    cluster_parts.initialise()
                fence_barriers()
        T.cuda.cta_sync()
        if config.launched_cluster > 1:
            arrive_at_cluster()
        if config.cluster > 1:
            wait_for_cluster()

        if warpgroup == 0:
            T.ptx.setmaxnreg.dec.sync.aligned.u32(registers.producer)
            if plan.loads(warp) & (T.cuda.elect_sync() != 0):
                head = T.meta_var(RingPosition(config.stages, loader * config.stages))
                head.start(0)
                walk = T.meta_var(walk_of(plan, grid, loader, config.teams))
                walk.start(cta)
                wait_for_predecessors()
                start_successor()
                start.wait(walk)
                while walk.more:
                    m, n = plan.tile(walk.tile, rank)
                    place = T.meta_var(ProductPlace(m, n, rank, plan.product(walk.tile)))
                    produce(plan, smem, RingCursor(ring, head), x_map, weight, place, walk, start)
                    walk.advance()
                if config.cluster > 1:
                    ring.wait_until_left(head)
            if config.split_cluster:
                wait_for_cluster()
        else:
            T.ptx.setmaxnreg.inc.sync.aligned.u32(registers.consumer)
            consumer = T.meta_var((warpgroup - 1) % config.row_team)
            group = T.meta_var((warpgroup - 1) // config.row_team)
            team = T.meta_var(plan.team(group))
            taker = T.meta_var(group if config.turns else 0)
            k_group = T.meta_var(0 if config.turns or config.teams > 1 else group)
            accumulator = T.alloc_local((config.row_blocks * plan.atom.d_registers,), "float32")
            if plan.groups is not None:
                sums_of_group = T.alloc_local((config.accumulators,), "float32")
            a = T.alloc_local((2 * config.row_blocks * plan.a_registers,), "uint32")
            rows = T.alloc_local((4 * config.row_blocks,), "uint32")
            scales = T.alloc_local((4 * config.row_blocks,), "float32")
            packed = T.alloc_local((4,), "uint32")
            turn = T.alloc_local((1,), "int32")
            turn[0] = 0
            first_x: T.uint64 = T.uint64(0)
            first_a: T.uint64 = T.uint64(0)
            T.evaluate(encode_descriptor(first_x, smem.ptr_to([0]), 128, 1024))
            if not work.quantised:
                T.evaluate(
                    encode_descriptor(
                        first_a,
                        smem.ptr_to([
                            plan.weight_offset + consumer * config.row_blocks * plan.block_bytes
                        ]),
                        128, 1024,
                    )
                )  # fmt: skip
            tail = T.meta_var(RingPosition(config.stages, team * config.stages))
            tail.start(taker * plan.k_stages + k_group)
            cursor = T.meta_var(RingCursor(ring, tail, RingPosition(config.stages)))
            own = T.meta_var(warpgroup - 1 if config.turns or config.teams > 1 else consumer)
            turn_of = T.meta_var(ConsumerTurn(plan, barriers, taker))
            thread = T.meta_var(ConsumerThread(consumer, warp, lane, own))
            operands = T.meta_var(Operands(smem, a, rows, first_a, first_x))
            constants = T.meta_var(RowConstants(taken, scale, bias))
            store = T.meta_var(
                TileStore(finishing, (smem, words), y_maps, inputs, residuals, scales, packed, turn)
            )
            if config.split_cluster:
                wait_for_cluster()
            if config.parts_in_memory:
                sums_of_parts = T.meta_var(
                    PartSums(plan.parts, (arrived, parts), cta, rank, consumer, thread)
                )
            walk = T.meta_var(walk_of(plan, grid, team + taker, config.teams * config.turn_takers))
            walk.start(cta)
            turn_of.start()
            residuals.start()
            wait_for_predecessors()
            while walk.more:
                m, n = plan.tile(walk.tile, rank)
                place = T.meta_var(ProductPlace(m, n, rank, plan.product(walk.tile)))
                results = T.meta_var(TileResults(plan, accumulator, place, thread))
                store.begin(results, k_group == 0)
                load_rows(plan, constants, scales, rows, place, thread)
                if plan.groups is not None:
                    main_loop_of_groups(
                        plan, accumulator, sums_of_group, words, operands, cursor, walk, thread
                    )
                else:
                    turn_of.wait()
                    main_loop(plan, accumulator, operands, cursor, walk, thread, turn_of)
                if config.k_groups > 1:
                    add_groups(plan, accumulator, sums, k_group, thread)
                if k_group == 0:
                    if config.split_cluster:
                        cluster_parts.settle(accumulator, thread)
                        if cluster_parts.finishes(consumer):
                            store.store(results)
                    elif config.splits:
                        sums_of_parts.settle(accumulator, walk)
                        if walk.ends_tile:
                            store.store(results)
                    else:
                        store.store(results)
                walk.advance()
                if config.turns:
                    tail.skip((config.turn_takers - 1) * plan.k_stages)
            if (warp == 0) & (lane == 0):
                T.ptx.cp.async_.bulk.wait_group(0)

    absent = {}
    if plan.ys < 2:
        absent["second_ptr"] = None
    if plan.ys < 3:
        absent["third_ptr"] = None
    if not work.x_scale:
        absent["x_scale_ptr"] = None
    if not work.residual:
        absent["residual_ptr"] = None
    if not plan.rows_shifted:
        absent["taken_ptr"] = None
    if not plan.rows_scaled:
        absent["scale_ptr"] = None
    if not work.bias:
        absent["bias_ptr"] = None
    if not spaces:
        absent |= {"arrived_ptr": None, "parts_ptr": None}
    return overlapping(main.specialize(**absent))
