"""The kernel of a batched product on mma.sync: a block computes a tile of y of one pair.

From sm_80 tiles arrive by cp.async in a ring of stages; an operand whose rows start at odd bytes,
and both on sm_75, wait in registers while the stages before are multiplied.
"""

import math

from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.arrays.storage import moved_as
from autoq.templates.cuda.device.launch.dependent_launch import (
    overlapping,
    start_successor,
    wait_for_predecessors,
)
from autoq.templates.cuda.device.launch.place import WarpThread
from autoq.templates.cuda.mma_sync.batched.copies import Source, fetch_operand, keep_operand
from autoq.templates.cuda.mma_sync.batched.multiply import StepOfK, multiply_stage, order_columns
from autoq.templates.cuda.mma_sync.batched.plan import SCALES, ZERO_POINTS, BatchedSyncPlan
from autoq.templates.cuda.mma_sync.batched.steps import multiply_all
from autoq.templates.cuda.mma_sync.batched.store import TileOfPair, copy_tile, store_tile
from autoq.templates.cuda.mma_sync.batched.verbatim import VerbatimRows, fetch_rows
from autoq.templates.cuda.mma_sync.batched.zero_points import ByteSums, take_off
from autoq.templates.cuda.mma_sync.multiply import Fragments
from autoq.templates.epilogue.cuda.parameters.arrays import EpilogueArrays
from autoq.templates.epilogue.cuda.parameters.lookups import fill_table
from autoq.templates.epilogue.cuda.parameters.scalars import scalar_words


def build_kernel(plan: BatchedSyncPlan) -> PrimFunc:
    """The kernel of a plan.

    Parameters: x, other, the residual where there is one, of bytes zero_points int32
    [ZERO_POINTS], then unless the output is int32 scale float32 [SCALES] and scalars float32
    (`packed_scalars`), and y.
    """
    work, config, epilogue = plan.workload, plan.config, plan.workload.epilogue
    threads = config.threads
    x_tile, other_tile = plan.x, plan.other
    tiles, floating = plan.tiles_m * plan.tiles_n, work.floating
    residual_dtype = epilogue.residual_dtype or epilogue.out_dtype
    y_values = math.prod(work.y_shape)

    @T.jit
    def main(
        x_ptr: T.handle,
        other_ptr: T.handle,
        residual_ptr: T.Optional(T.handle),
        zero_points_ptr: T.Optional(T.handle),
        scale_ptr: T.Optional(T.handle),
        scalars_ptr: T.Optional(T.handle),
        y_ptr: T.handle,
    ):
        x_whole = T.match_buffer(x_ptr, work.x_shape, work.in_dtype, align=16)
        other_whole = T.match_buffer(other_ptr, work.other_shape, work.other_dtype, align=16)
        y_whole = T.match_buffer(y_ptr, work.y_shape, epilogue.out_dtype, align=16)
        if scale_ptr is not None:
            scale = T.match_buffer(scale_ptr, (SCALES,), "float32", align=16)
            scalars = T.match_buffer(scalars_ptr, (scalar_words(epilogue),), "float32", align=16)
        if zero_points_ptr is not None:
            zero_points = T.match_buffer(zero_points_ptr, (ZERO_POINTS,), "int32", align=16)
        if scale_ptr is None:
            scale = T.meta_var(zero_points)
            scalars = T.meta_var(zero_points)
        if residual_ptr is not None:
            residual_whole = T.match_buffer(residual_ptr, work.y_shape, residual_dtype, align=16)
        else:
            residual_whole = T.meta_var(y_whole)
        x = T.decl_buffer((x_tile.array_bytes,), "uint8", data=x_whole.data)
        other = T.decl_buffer((other_tile.array_bytes,), "uint8", data=other_whole.data)
        y = T.decl_buffer((y_values,), moved_as(epilogue.out_dtype), data=y_whole.data)
        y_bytes = T.decl_buffer((y_values * plan.out_size,), "uint8", data=y_whole.data)
        residual = T.decl_buffer((y_values,), moved_as(residual_dtype), data=residual_whole.data)

        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": config.blocks_per_sm})
        block = T.cta_id([plan.blocks])
        index = T.thread_id([threads])
        smem = T.alloc_buffer((plan.smem_bytes,), "uint8", scope="shared.dyn", align=128)
        staged = T.decl_buffer(
            (plan.smem_bytes // plan.out_size,), moved_as(epilogue.out_dtype), data=smem.data,
            scope="shared.dyn",
        )  # fmt: skip
        pair: T.int32 = block // tiles
        first_row: T.int32 = block % tiles // plan.tiles_n * config.block_m
        first_column: T.int32 = block % plan.tiles_n * config.block_n
        lane: T.int32 = index % 32
        warp_row: T.int32 = index // 32 % config.BLK_ROW_WARPS
        warp_column: T.int32 = index // 32 // config.BLK_ROW_WARPS
        accumulator = T.alloc_local((config.accumulators,), "uint32")
        if floating:
            products = T.alloc_local((config.accumulators,), "float32")
        else:
            products = T.meta_var(accumulator)
        a = T.alloc_local((2 * config.WARP_ROW_TILES * 4,), "uint32")
        b = T.alloc_local((2 * config.WARP_COL_TILES * 2,), "uint32")
        held_x = T.alloc_local(
            (1 if config.verbatim else max(x_tile.held_words(threads), 1),), "uint32"
        )
        held_other = T.alloc_local((max(other_tile.held_words(threads), 1),), "uint32")
        words = T.alloc_local((plan.residual_registers,), "uint32")
        row_sums = T.alloc_local((2 * config.WARP_ROW_TILES,), "int32")
        column_sums = T.alloc_local((config.WARP_COL_TILES,), "int32")
        x_start: T.int32 = work.row_places(work.x_order, pair)[0] * plan.size
        other_start: T.int32 = work.row_places(work.other_order, pair)[0] * plan.size
        other_first = T.meta_var(first_column * plan.size if plan.turned else first_column)
        thread = T.meta_var(WarpThread(index, lane, warp_row, warp_column))
        fragments = T.meta_var(Fragments(a, b))
        of_x = T.meta_var(Source(x, x_start, first_row, held_x))
        of_other = T.meta_var(Source(other, other_start, other_first, held_other))
        begins = T.alloc_local((2 * config.WARP_ROW_TILES,), "int32")
        rows = T.meta_var(VerbatimRows(x, x_start, first_row, begins))
        bias = T.meta_var(row_sums if floating else zero_points)
        arrays = T.meta_var(EpilogueArrays(bias, scale, scalars, residual, words, y))

        @T.inline
        def fetch(step, stage):
            if not config.verbatim:
                fetch_operand(plan, smem, of_x, x_tile, step, stage, thread)
            fetch_operand(plan, smem, of_other, other_tile, step, stage, thread)

        @T.inline
        def keep(step):
            if not config.verbatim:
                keep_operand(plan, smem, of_x, x_tile, step, thread)
            keep_operand(plan, smem, of_other, other_tile, step, thread)

        @T.inline
        def multiply(step, last):
            part = T.meta_var(StepOfK(plan, step, rows, last=last))
            multiply_stage(plan, smem, products, fragments, sums, part, thread)

        if epilogue.table:
            fill_table(plan, smem, scalars, lane)
        for i in T.unroll(config.accumulators):
            products[i] = T.float32(0) if floating else T.uint32(0)
        for i in T.unroll(2 * config.WARP_ROW_TILES):
            row_sums[i] = 0
        for i in T.unroll(config.WARP_COL_TILES):
            column_sums[i] = 0
        x_zero: T.int32 = 0 if floating else zero_points[0]
        other_zero: T.int32 = 0 if floating else zero_points[1]
        sums = T.meta_var(ByteSums(row_sums, column_sums, x_zero, other_zero))
        if plan.overlaps:
            wait_for_predecessors()
            start_successor()
        if config.verbatim:
            fetch_rows(plan, smem, rows, thread)
        multiply_all(plan, fetch, keep, multiply)
        if floating:
            for i in T.unroll(config.accumulators):
                accumulator[i] = T.reinterpret("uint32", products[i] * scale[0])
        else:
            take_off(plan, accumulator, sums, thread)
        order_columns(plan, accumulator, thread)
        place = T.meta_var(TileOfPair(pair, first_row, first_column))
        store_tile(plan, smem, staged, accumulator, arrays, place, thread)
        if config.staged:
            copy_tile(plan, smem, y_bytes, place, thread)

    present = {
        "residual_ptr": epilogue.residual_dtype is not None,
        "zero_points_ptr": not floating,
        "scale_ptr": epilogue.out_dtype != "int32",
        "scalars_ptr": epilogue.out_dtype != "int32",
    }
    kernel = main.specialize(**{name: None for name, there in present.items() if not there})
    return overlapping(kernel) if plan.overlaps else kernel
