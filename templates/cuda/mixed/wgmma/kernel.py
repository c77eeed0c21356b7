"""The mixed-input product on wgmma: weights become A in registers while the tensor cores work.

A warp brings rows of x and tiles of weights into a ring of stages. Each consumer warpgroup widens
the weights of the next stage while its products of this one run, so that registers of A take turns;
D [weight rows, rows of x] has x as its B, in shared memory as it lies in memory. The scheme is that
of CUTLASS's mixed-input kernels with its operands swapped; `teams` is its ping-pong.
"""

from collections.abc import Sequence

from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.cuda.device.launch.dependent_launch import overlapping
from autoq.templates.cuda.device.launch.place import GridThread
from autoq.templates.cuda.device.memory.cluster import arrive_at_cluster, wait_for_cluster
from autoq.templates.cuda.device.memory.ring import Ring, fence_barriers
from autoq.templates.cuda.device.memory.tma import prefetch_map
from autoq.templates.cuda.mixed.finish import Finishing
from autoq.templates.cuda.mixed.result_inputs import result_inputs
from autoq.templates.cuda.mixed.row_values import row_values
from autoq.templates.cuda.mixed.wgmma.cluster_parts import ClusterParts
from autoq.templates.cuda.mixed.wgmma.consumer import Results, Shared, Shares, consume
from autoq.templates.cuda.mixed.wgmma.multiply import RowConstants
from autoq.templates.cuda.mixed.wgmma.plan import MixedPlan
from autoq.templates.cuda.mixed.wgmma.producer import feed
from autoq.templates.cuda.mixed.wgmma.residuals import Residuals
from autoq.templates.cuda.mixed.wgmma.result_map import result_map
from autoq.templates.cuda.mixed.wgmma.teams import TeamStart
from autoq.templates.cuda.mixed.wgmma.turns import initialise_turns
from autoq.templates.program import Workspace


def build_kernel(plan: MixedPlan, spaces: Sequence[Workspace], grid: int) -> PrimFunc:
    """The kernel of so many clusters; its parameters are inputs, `packed`, workspaces, results."""
    work, config = plan.workload, plan.config
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
            spaces_of_parts = T.meta_var((arrived, parts))
        else:
            spaces_of_parts = T.meta_var(())
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
        else:
            cluster_parts = T.meta_var(None)
        if config.k_groups > 1:
            sums = T.decl_buffer(
                (config.exchange_bytes // 4,), "float32", data=smem.data,
                byte_offset=plan.exchange_offset, scope="shared.dyn",
            )  # fmt: skip
        else:
            sums = T.meta_var(None)

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

        at = T.meta_var(GridThread(cta, grid, rank, warpgroup, warp, lane))
        if warpgroup == 0:
            feed(plan, smem, ring, x_map, weight, start, at)
        else:
            shared = T.meta_var(Shared(smem, words, barriers, ring, sums))
            constants = T.meta_var(RowConstants(taken, scale, bias))
            results = T.meta_var(Results(finishing, y_maps, inputs, residuals))
            shares = T.meta_var(Shares(cluster_parts, spaces_of_parts))
            consume(plan, shared, constants, results, shares, at)

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
