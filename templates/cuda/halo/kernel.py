"""The kernel of the halo convolutions: shifted wgmma descriptors over one halo, warp-specialised.

One producer warp fills a ring of halo slots (one chunk of channels of one tile each) and, unless
the weights stay resident, a ring of weight stages; 1 to 3 consumer warpgroups multiply
and store what they have multiplied in the way of the plan's `store`.
"""

from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.arrays.storage import moved_as
from autoq.templates.cuda.device.launch.dependent_launch import overlapping
from autoq.templates.cuda.device.launch.place import GridThread
from autoq.templates.cuda.device.memory.ring import Ring
from autoq.templates.cuda.device.memory.tma import ENCODE_TILED, prefetch_map
from autoq.templates.cuda.halo.consumer import HaloArrays, consume
from autoq.templates.cuda.halo.pipeline import Shared, start_block
from autoq.templates.cuda.halo.plan import HaloPipelinePlan
from autoq.templates.cuda.halo.producer import feed
from autoq.templates.epilogue.cuda.parameters.scalars import scalar_words


def build_halo_kernel(plan: HaloPipelinePlan) -> PrimFunc:
    """The kernel of a workload.

    Parameters: x, the residual and row scales where there are, weights int8 [padded k * reduction],
    bias int32 [border classes * padded k], then unless the output is int32 scale float32
    (`packed_scales`) and scalars float32 (`packed_scalars`), and y.
    """
    tiling = plan.tiling
    workload, config, epilogue = tiling.workload, tiling.config, tiling.workload.epilogue
    residual_dtype = epilogue.residual_dtype or epilogue.out_dtype

    @T.jit
    def main(
        x_ptr: T.handle, residual_ptr: T.Optional(T.handle), row_scale_ptr: T.Optional(T.handle),
        weight_ptr: T.handle, bias_ptr: T.handle, scale_ptr: T.Optional(T.handle),
        scalars_ptr: T.Optional(T.handle), y_ptr: T.handle,
    ):  # fmt: skip
        x = T.match_buffer(x_ptr, workload.x_shape, workload.in_dtype, align=16)
        weight = T.match_buffer(weight_ptr, plan.weight_shape, "int8", align=16)
        bias = T.match_buffer(bias_ptr, (plan.classes * plan.padded_n,), "int32", align=16)
        y_nhwc = T.match_buffer(y_ptr, workload.y_shape, epilogue.out_dtype, align=16)
        if scale_ptr is not None:
            scale = T.match_buffer(scale_ptr, (plan.scales,), "float32", align=16)
            scalars = T.match_buffer(scalars_ptr, (scalar_words(epilogue),), "float32", align=16)
        else:
            scale = T.decl_buffer((plan.padded_n,), "float32", data=bias.data)
            scalars = T.meta_var(scale)
        if residual_ptr is not None:
            residual_nhwc = T.match_buffer(residual_ptr, workload.y_shape, residual_dtype, align=16)
        else:
            residual_nhwc = T.meta_var(y_nhwc)
        if row_scale_ptr is not None:
            row_scale = T.match_buffer(row_scale_ptr, (workload.n,), "float32", align=16)
        else:
            row_scale = T.meta_var(None)
        y = T.decl_buffer((plan.elements,), moved_as(epilogue.out_dtype), data=y_nhwc.data)
        residual = T.decl_buffer(
            (plan.elements,), moved_as(residual_dtype), data=residual_nhwc.data
        )
        x_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed(
            plan.x_encode, x_map, workload.in_dtype, plan.x_rank, x.data, *plan.x_arguments()
        )

        if plan.store.through_map:
            y_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
            T.call_packed(
                ENCODE_TILED, y_map, epilogue.out_dtype, plan.y_rank, y.data, *plan.y_arguments()
            )
        else:
            y_map = T.meta_var(None)

        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": config.blocks_per_unit})
        if plan.cluster > 1:
            rank = T.cta_id_in_cluster([plan.cluster])
            cta = T.meta_var(T.cluster_id([tiling.grid // plan.cluster]) * plan.cluster + rank)
        else:
            rank = T.meta_var(0)
            cta = T.cta_id([tiling.grid])
        warpgroup = T.warpgroup_id([config.consumers + 1])
        warp = T.warp_id_in_wg([4])
        lane = T.lane_id([32])
        smem = T.alloc_buffer((tiling.smem_bytes,), "uint8", scope="shared.dyn", align=1024)
        barriers = T.decl_buffer(
            (tiling.barriers,), "uint64", data=smem.data, byte_offset=tiling.barrier_offset,
            scope="shared.dyn",
        )  # fmt: skip
        halo = T.meta_var(Ring(barriers, 0, config.halo_stages))
        weights = T.meta_var(Ring(barriers, plan.weight_barriers, plan.ring_stages))
        if (warpgroup == 0) & (warp == 0) & (lane == 0):
            T.evaluate(prefetch_map(x_map))
        start_block(plan, barriers, halo, weights, warpgroup, warp, lane)

        at = T.meta_var(GridThread(cta, tiling.grid, rank, warpgroup, warp, lane))
        shared = T.meta_var(Shared(smem, barriers, halo, weights))
        if warpgroup == 0:
            feed(plan, shared, x_map, weight, at)
        else:
            arrays = T.meta_var(HaloArrays(bias, scale, scalars, residual, y, y_map, row_scale))
            consume(plan, shared, arrays, at)

    absent = {} if epilogue.residual_dtype else {"residual_ptr": None}
    if epilogue.out_dtype == "int32":
        absent |= {"scale_ptr": None, "scalars_ptr": None}
    if not epilogue.row_scale:
        absent["row_scale_ptr"] = None
    return overlapping(main.specialize(**absent))
