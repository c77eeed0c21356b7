"""The warp-specialised wgmma kernel: one warp feeds a ring of stages, warpgroups compute tiles.

Follows the producer/consumer pipelines of CUTLASS 3 (cooperative and ping-pong); activations
come through any `Load`, weights as `cuda/device/weights.py` packs them.
"""

from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.arrays.storage import moved_as
from autoq.templates.cuda.device.launch.dependent_launch import cooperating, overlapping
from autoq.templates.cuda.device.memory.ring import Ring
from autoq.templates.cuda.device.memory.tma import ENCODE_TILED
from autoq.templates.cuda.wgmma.kernel.consumer import (
    PipelineArrays,
    RunArrays,
    Shared,
    consume,
)
from autoq.templates.cuda.wgmma.kernel.copies import (
    absent,
    matched_expansion,
    matched_numbers,
    matched_range,
    matched_spaces,
    optional,
    output_of_copy,
    own,
)
from autoq.templates.cuda.wgmma.kernel.producer import feed
from autoq.templates.cuda.wgmma.kernel.start import Sources, Starter, ask_ahead, start_block
from autoq.templates.cuda.wgmma.plan import PipelinePlan
from autoq.templates.cuda.wgmma.weighing import matched
from autoq.templates.epilogue.cuda.fragments.wgmma_tile import read_limits
from autoq.templates.epilogue.cuda.short_forms.words import WORDS


def build_pipeline(
    plan: PipelinePlan, x_shape: tuple[int, ...], y_shape: tuple[int, ...]
) -> PrimFunc:
    """The kernel of a workload.

    Parameters: x (x_shape), the residual (y_shape), row scales and the numbers of a run where there
    are, weights int8 [padded k * layout.total], bias int32 [border classes, padded k], then unless
    the output is int32 scale float32 (`packed_scales`) and scalars float32 [8], and y (y_shape).
    Where the epilogue is boundable, limits [8] follow the scalars, or a table of outputs does
    (`packed_scalars`), and tables int32 [n tiles, table words] unless it is uniform; then what an
    expansion reads, whose y has other columns than the workload. With `stream_k` the plan's
    workspaces come before y. Where the product is weighed, scales of rows and columns come before
    these, and what `Weighing.parts` says behind y, as the scale, the zero point and `range_words`
    of outputs that are quantised by their range.

    Of several copies, up to three, what is constant has as many times the first extent, and as
    many outputs follow.
    """
    workload, config, layout, load = plan.workload, plan.config, plan.layout, plan.load
    epilogue, copies = workload.epilogue, plan.copies
    x_arguments = load.map_arguments()

    @T.jit
    def main(
        x_ptr: T.handle, residual_ptr: T.Optional(T.handle), row_scale_ptr: T.Optional(T.handle),
        x_scale_ptr: T.Optional(T.handle), x_zero_point_ptr: T.Optional(T.handle),
        weight_ptr: T.handle, bias_ptr: T.handle, scale_ptr: T.Optional(T.handle),
        scalars_ptr: T.Optional(T.handle), table_ptr: T.Optional(T.handle),
        spans_ptr: T.Optional(T.handle), places_ptr: T.Optional(T.handle),
        m_weight_ptr: T.Optional(T.handle), n_weight_ptr: T.Optional(T.handle),
        arrived_ptr: T.Optional(T.handle), parts_ptr: T.Optional(T.handle), y_ptr: T.handle,
        second_ptr: T.Optional(T.handle), third_ptr: T.Optional(T.handle),
        y_scale_ptr: T.Optional(T.handle), y_zero_point_ptr: T.Optional(T.handle),
        ranges_ptr: T.Optional(T.handle),
        m_parts_ptr: T.Optional(T.handle), n_parts_ptr: T.Optional(T.handle),
    ):  # fmt: skip
        x = T.match_buffer(x_ptr, x_shape, workload.in_dtype, align=16)
        words_of_weights = T.meta_var((copies * plan.padded_n * layout.total,))
        weights = T.match_buffer(weight_ptr, words_of_weights, plan.atom.b, align=16)
        biases = T.match_buffer(bias_ptr, (copies * plan.biases,), "int32", align=16)
        y_nhwc = T.match_buffer(y_ptr, y_shape, epilogue.out_dtype, align=16)
        scales = T.meta_var(optional(scale_ptr, (copies * plan.scales,), "float32", biases))
        numbers = T.meta_var(optional(scalars_ptr, (copies * plan.scalars,), "float32", biases))
        row_scale = T.meta_var(optional(row_scale_ptr, y_shape[:1], "float32", biases))
        numbers_of_run = T.meta_var(matched_numbers((x_scale_ptr, x_zero_point_ptr)))
        residual_nhwc = T.meta_var(optional(residual_ptr, y_shape, epilogue.residual_dtype, y_nhwc))
        words_of_tables = T.meta_var((copies * plan.n_tiles * plan.memory.table_words,))
        tables = T.meta_var(optional(table_ptr, words_of_tables, "int32", biases))
        second = T.meta_var(optional(second_ptr, y_shape, epilogue.out_dtype, y_nhwc))
        third = T.meta_var(optional(third_ptr, y_shape, epilogue.out_dtype, y_nhwc))
        of_range = T.meta_var(matched_range(plan, (y_scale_ptr, y_zero_point_ptr, ranges_ptr)))
        of_parts = T.meta_var(matched_spaces(plan, (arrived_ptr, parts_ptr)))
        expanded = T.meta_var(matched_expansion(plan, (spans_ptr, places_ptr)))
        of_weighing = T.meta_var((m_weight_ptr, n_weight_ptr, m_parts_ptr, n_parts_ptr))
        weighed = T.meta_var(matched(plan.weighing, of_weighing))
        residual = T.decl_buffer(
            (plan.elements,), moved_as(epilogue.residual_dtype or epilogue.out_dtype),
            data=residual_nhwc.data,
        )  # fmt: skip
        x_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed(load.encode, x_map, workload.in_dtype, load.rank, x.data, *x_arguments)
        if plan.residual_ahead:
            residual_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
            T.call_packed(
                ENCODE_TILED, residual_map, epilogue.residual_dtype, 2, residual.data,
                *plan.residual_map(),
            )  # fmt: skip
        else:
            residual_map = T.meta_var(x_map)

        T.device_entry()
        if plan.reallocates or config.blocks_per_unit > 1:
            T.attr({"tirx.launch_bounds_min_blocks_per_sm": config.blocks_per_unit})
        if config.grid.cluster > 1:
            block = T.cluster_id([copies * plan.grid])
            rank = T.cta_id_in_cluster([config.grid.cluster])
        else:
            block = T.cta_id([copies * plan.grid])
            rank = T.meta_var(0)
        copy = T.meta_var(block // plan.grid if copies > 1 else 0)
        cta = T.meta_var(block % plan.grid if copies > 1 else block)
        weight = T.decl_buffer(*own(weights, plan.padded_n * layout.total, copy))
        bias = T.decl_buffer(*own(biases, plan.biases, copy))
        scale = T.decl_buffer(*own(scales, plan.scales, copy))
        scalars = T.decl_buffer(*own(numbers, plan.scalars, copy))
        table = T.decl_buffer(*own(tables, plan.n_tiles * plan.memory.table_words, copy))
        y = T.decl_buffer(
            (plan.elements,), moved_as(epilogue.out_dtype), data=y_nhwc.data,
            elem_offset=output_of_copy(copy, (y_nhwc, second, third)),
        )  # fmt: skip
        warpgroup = T.warpgroup_id([config.consumers + 1])
        warp = T.warp_id_in_wg([4])
        lane = T.lane_id([32])
        smem = T.alloc_buffer((plan.smem_bytes,), "uint8", scope="shared.dyn", align=1024)
        barriers = T.decl_buffer(
            (config.barriers,), "uint64", data=smem.data,
            byte_offset=plan.memory.barrier_offset, scope="shared.dyn",
        )  # fmt: skip
        ring = T.meta_var(Ring(barriers, 0, config.stages))
        slots = T.meta_var(Ring(barriers, plan.memory.slot_barriers, config.slots))

        sources = T.meta_var(Sources(x_map, residual_map, weight, table))
        starter = T.meta_var(Starter(warpgroup, warp, cta, rank))
        limits = T.alloc_local((WORDS + 1,), "float32")
        if plan.uniform:  # noqa: SIM102
            if warpgroup > 0:
                read_limits(plan, limits, scalars)
        ask_ahead(plan, weights, starter, block)
        start_block(plan, smem, ring, slots, sources, starter)

        if warpgroup == 0:
            feed(plan, smem, ring, slots, sources, starter)
        else:
            shared = T.meta_var(Shared(smem, barriers, ring, slots))
            arrays = T.meta_var(PipelineArrays(bias, scale, scalars, residual, y, row_scale))
            run = T.meta_var(
                RunArrays(numbers_of_run, of_range, of_parts, weighed, block, expanded)
            )
            consume(plan, shared, arrays, run, limits, starter, lane)

    kernel = main.specialize(**dict.fromkeys(absent(plan)))
    kernel = cooperating(kernel) if epilogue.by_range else kernel
    return overlapping(kernel) if plan.overlaps else kernel
