"""The warp-specialised wgmma kernel: one warp feeds a ring of stages, warpgroups compute tiles.

Follows the producer/consumer pipelines of CUTLASS 3 (cooperative and ping-pong); activations
come through any `Load`, weights as `cuda/device/weights.py` packs them.
"""

from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.cuda.device.launch.dependent_launch import (
    cooperating,
    overlapping,
    start_successor,
    wait_for_predecessors,
)
from autoq.templates.cuda.device.launch.place import ConsumerThread, TilePlace
from autoq.templates.cuda.device.memory.cluster import wait_for_cluster
from autoq.templates.cuda.device.memory.parts import PartSums
from autoq.templates.cuda.device.memory.ring import (
    Ring,
    RingCursor,
    RingPosition,
)
from autoq.templates.cuda.device.memory.tma import ENCODE_TILED
from autoq.templates.cuda.device.mma.descriptors import encode_descriptor
from autoq.templates.cuda.wgmma.kernel.copies import (
    absent,
    matched_numbers,
    matched_range,
    matched_spaces,
    optional,
    output_of_copy,
    own,
    read_numbers,
)
from autoq.templates.cuda.wgmma.kernel.exchange import clear_tile, exchange
from autoq.templates.cuda.wgmma.kernel.multiply import GroupSums, Operands, multiply
from autoq.templates.cuda.wgmma.kernel.pieces import pass_over, walk_of
from autoq.templates.cuda.wgmma.kernel.producer import (
    load_first_weights,
    load_tile_operands,
    produce,
)
from autoq.templates.cuda.wgmma.kernel.start import Sources, Starter, start_block
from autoq.templates.cuda.wgmma.kernel.tail import Finish, finish_tile
from autoq.templates.cuda.wgmma.plan import PipelinePlan
from autoq.templates.cuda.wgmma.weighing import matched, weigh_tile
from autoq.templates.epilogue.cuda.fragments.range_tile import quantise_tile
from autoq.templates.epilogue.cuda.fragments.wgmma_tile import (
    ThreadShare,
    fetch_residuals,
    read_limits,
    start_tile,
    store_in_a_form,
)
from autoq.templates.epilogue.cuda.parameters.arrays import EpilogueArrays
from autoq.templates.epilogue.cuda.parameters.lookups import fill_table
from autoq.templates.epilogue.cuda.short_forms.words import WORDS
from autoq.templates.storage import moved_as


def build_pipeline(
    plan: PipelinePlan, x_shape: tuple[int, ...], y_shape: tuple[int, ...]
) -> PrimFunc:
    """The kernel of a workload.

    Parameters: x (x_shape), the residual (y_shape), row scales and the numbers of a run where there
    are, weights int8 [padded k * layout.total], bias int32 [border classes, padded k], then unless
    the output is int32 scale float32 (`packed_scales`) and scalars float32 [8], and y (y_shape).
    Where the epilogue is boundable, limits [8] follow the scalars, or a table of outputs does
    (`packed_scalars`), and tables int32 [n tiles, table words] unless it is uniform. With
    `stream_k` the plan's workspaces come before y. Where the product is weighed, scales of rows and
    columns come before these, and what `Weighing.parts` says behind y, as the scale, the zero point
    and `range_words` of outputs that are quantised by their range.

    Of several copies, up to three, what is constant has as many times the first extent, and as
    many outputs follow.
    """
    workload, config, layout, load = plan.workload, plan.config, plan.layout, plan.load
    epilogue, copies = workload.epilogue, plan.copies
    registers = config.registers
    x_arguments = load.map_arguments()

    @T.jit
    def main(
        x_ptr: T.handle, residual_ptr: T.Optional(T.handle), row_scale_ptr: T.Optional(T.handle),
        x_scale_ptr: T.Optional(T.handle), x_zero_point_ptr: T.Optional(T.handle),
        weight_ptr: T.handle, bias_ptr: T.handle, scale_ptr: T.Optional(T.handle),
        scalars_ptr: T.Optional(T.handle), table_ptr: T.Optional(T.handle),
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
        start_block(plan, smem, ring, slots, sources, starter)

        if warpgroup == 0:
            if plan.reallocates:
                T.ptx.setmaxnreg.dec.sync.aligned.u32(registers.producer)
            if config.grid.cluster > 1:
                wait_for_cluster()
            if (warp == 0) & (T.cuda.elect_sync() != 0):
                head = T.meta_var(RingPosition(config.stages))
                head.start(plan.stages_ahead)
                walk = T.meta_var(walk_of(plan))
                walk.start(cta)
                wait_for_predecessors()
                start_successor()
                while walk.more:
                    m, n = plan.tile(walk.tile, rank)
                    place = T.meta_var(TilePlace(m, n, rank))
                    cursor = T.meta_var(RingCursor(ring, head))
                    produce(plan, smem, cursor, x_map, weight, place, walk, walk.tile == cta)
                    walk.advance()
                if plan.receivers > 1:
                    ring.wait_until_left(head)
            if (warp == 1) & (T.cuda.elect_sync() != 0):
                load_tile_operands(plan, smem, slots, table, residual_map, cta, rank)
            if config.weights_stay:  # noqa: SIM102
                if (warp == 2) & (T.cuda.elect_sync() != 0):
                    load_first_weights(plan, smem, ring, weight, cta % plan.n_tiles)
        else:
            if plan.reallocates:
                T.ptx.setmaxnreg.inc.sync.aligned.u32(registers.consumer)
            accumulator = T.alloc_local((config.m_blocks * plan.block_accumulators,), "uint32")
            words = T.alloc_local((plan.residual_registers,), "uint32")
            if plan.grouped:
                sums = T.alloc_local((config.accumulators,), "float32")
            else:
                sums = T.meta_var(accumulator)
            consumer = T.meta_var(warpgroup - 1)
            part = T.meta_var(plan.part(rank, consumer))
            first_row: T.int32 = plan.first_row(consumer)
            first_a: T.uint64 = T.uint64(0)
            first_b: T.uint64 = T.uint64(0)
            T.evaluate(
                encode_descriptor(
                    first_a, smem.ptr_to([first_row * config.row_bytes]), config.row_bytes,
                    8 * config.row_bytes, plan.memory.a_bytes,
                )
            )  # fmt: skip
            T.evaluate(
                encode_descriptor(
                    first_b, smem.ptr_to([plan.memory.b_offset]), config.row_bytes,
                    8 * config.row_bytes, plan.memory.b_bytes,
                )
            )  # fmt: skip
            tail = T.meta_var(RingPosition(config.stages))
            previous = T.meta_var(RingPosition(config.stages))
            tail.start(0 if config.stream_k else plan.first_step(consumer))
            previous.start(0)
            cursor = T.meta_var(RingCursor(ring, tail, previous))
            thread = T.meta_var(ConsumerThread(consumer, warp, lane))
            operands = T.meta_var(Operands(first_a, first_b))
            of_run = T.alloc_local((2 if epilogue.dynamic else 1,), "float32")
            arrays = T.meta_var(
                EpilogueArrays(bias, scale, scalars, residual, words, y, row_scale, of_run)
            )
            turn: T.int32 = 0
            walk = T.meta_var(walk_of(plan, consumer if plan.ping_pong else 0, plan.teams))
            walk.start(cta)
            if config.stream_k:
                row = T.meta_var(0 if plan.ping_pong else consumer)
                parts_of_tiles = T.meta_var(PartSums(plan.parts, of_parts, cta, rank, row, thread))
                pass_over(walk, tail, consumer if plan.ping_pong else 0)
            slot = T.meta_var(RingPosition(config.slots))
            slot.start(consumer if plan.ping_pong else 0)
            if plan.bounded:
                read_limits(plan, limits, scalars)
            if epilogue.table:
                fill_table(plan, smem, scalars, lane)
            wait_for_predecessors()
            if epilogue.dynamic:
                read_numbers(of_run, numbers_of_run)
            if config.grid.cluster > 1:
                wait_for_cluster()
            while walk.more:
                m, n = plan.tile(walk.tile, rank)
                share = T.meta_var(ThreadShare(TilePlace(m, n, rank), thread, first_row, part))
                if config.parts > 1:
                    clear_tile(plan, accumulator)
                if plan.bounded:
                    slots.wait(slot)
                if plan.has_limits:
                    if plan.begins_tile(part, walk):
                        start_tile(plan, accumulator, smem, slot.stage, bias, limits, share)
                    elif config.stream_k:
                        clear_tile(plan, accumulator)
                if plan.residual_early:
                    fetch_residuals(plan, arrays, share)
                if plan.ping_pong:
                    T.cuda.mbarrier_wait(
                        barriers.ptr_to([plan.memory.consumer_barriers + consumer]),
                        turn ^ T.cast(consumer == 0, "int32"),
                    )
                    turn = turn ^ 1
                groups = T.meta_var(GroupSums(sums, arrays, n))
                multiply(plan, accumulator, groups, operands, cursor, walk, rank, thread)
                if config.parts > 1:
                    exchange(plan, accumulator, smem, barriers, rank, thread)
                if config.tail_stages > 0:
                    finish = T.meta_var(Finish(arrays, smem, slot.stage, limits))
                    finish_tile(plan, accumulator, operands, cursor, rank, share, finish, walk)
                elif config.stream_k:
                    parts_of_tiles.settle(accumulator, walk)
                    if walk.ends_tile:
                        store_in_a_form(plan, accumulator, arrays, smem, slot.stage, limits, share)
                elif epilogue.by_range:
                    found = T.alloc_local((3,), "float32")
                    quantise_tile(plan, accumulator, arrays, smem, share, of_range, block, found)
                else:
                    store_in_a_form(plan, accumulator, arrays, smem, slot.stage, limits, share)
                if plan.weighing is not None:
                    weigh_tile(plan, accumulator, weighed, smem, share)
                if plan.bounded:
                    T.cuda.warp_sync()
                    if lane == 0:
                        slots.release(slot.stage)
                    slot.skip(plan.teams)
                walk.advance()
                if plan.ping_pong:
                    if config.stream_k:
                        pass_over(walk, tail, plan.teams - 1)
                    else:
                        tail.skip((plan.teams - 1) * layout.stages)

    kernel = main.specialize(**dict.fromkeys(absent(plan)))
    return overlapping(cooperating(kernel) if epilogue.by_range else kernel)
