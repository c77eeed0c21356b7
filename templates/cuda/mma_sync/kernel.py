"""The mma.sync convolution as a PrimFunc: implicit GEMM over output pixels, channels and taps.

From sm_80 tiles arrive by cp.async in a ring of stages and multiply by m16n8k32 (m16n8k64 for
int4). sm_75 has neither, so its copies wait in registers while the other of two stages multiplies
by m8n8k16 (m8n8k32); so do those that unpack nibbles to bytes at once, on any target. Nibbles may
also arrive by cp.async: then a step's are unpacked while the step before it multiplies.
"""

import math

from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.arrays.storage import moved_as, stored
from autoq.templates.cuda.device.launch.dependent_launch import (
    overlapping,
    start_successor,
    wait_for_predecessors,
)
from autoq.templates.cuda.device.launch.place import TilePlace, WarpThread
from autoq.templates.cuda.device.launch.raster import tile_of
from autoq.templates.cuda.device.launch.step_loops import (
    multiply_from_registers,
    multiply_from_ring,
    multiply_unpacked,
)
from autoq.templates.cuda.mma_sync.copies import (
    PixelCopies,
    WeightCopies,
    fetch,
    keep,
    locate_halo,
    locate_pixels,
    take,
)
from autoq.templates.cuda.mma_sync.epilogue import store_tile
from autoq.templates.cuda.mma_sync.multiply import Fragments, multiply_stage, unscale
from autoq.templates.cuda.mma_sync.multiply_taps import multiply_taps
from autoq.templates.cuda.mma_sync.plan import MmaSyncPlan
from autoq.templates.cuda.mma_sync.scale_groups import end_group
from autoq.templates.cuda.mma_sync.staged_epilogue import store_staged
from autoq.templates.epilogue.cuda.parameters.arrays import EpilogueArrays
from autoq.templates.epilogue.cuda.parameters.lookups import fill_table
from autoq.templates.epilogue.cuda.parameters.scalars import scalar_words, scale_words

# Tiles of 8 neighbouring pixel blocks run together, so that their weights stay in the L2.
_RASTER_GROUP = 8


def build_kernel(plan: MmaSyncPlan) -> PrimFunc:
    """The kernel of a plan.

    Parameters: x, the residual and row scales where there are, weight int8 [tiles_n, steps,
    weight_rows, weight_row_bytes], bias int32 [border classes, padded k], then unless the output is
    int32 scale float32 (`packed_scales`) and scalars float32 (`packed_scalars`), and y; activations
    as they are stored.
    """
    workload, conv, config, tiling = plan.workload, plan.conv, plan.config, plan.tiling
    epilogue = workload.epilogue
    steps, stages, rounds = tiling.steps, config.stages, plan.pixel_rounds
    weight_shape = tiling.packed_weight
    groups = conv.scale_groups
    scales = scale_words(epilogue, tiling.padded_k, groups)
    biases = plan.bias_rows * groups * tiling.padded_k
    residual_dtype = epilogue.residual_dtype or epilogue.out_dtype
    x_array = stored(workload.x_shape, conv.in_dtype)
    y_array = stored(workload.y_shape, epilogue.out_dtype)
    residual_array = stored(workload.y_shape, residual_dtype)

    @T.jit
    def main(
        x_ptr: T.handle,
        residual_ptr: T.Optional(T.handle),
        row_scale_ptr: T.Optional(T.handle),
        weight_ptr: T.handle,
        bias_ptr: T.handle,
        scale_ptr: T.Optional(T.handle),
        scalars_ptr: T.Optional(T.handle),
        y_ptr: T.handle,
    ):
        x_nhwc = T.match_buffer(x_ptr, *x_array, align=16)
        weight = T.match_buffer(weight_ptr, weight_shape, "int8", align=16)
        bias = T.match_buffer(bias_ptr, (biases,), "int32", align=16)
        y_nhwc = T.match_buffer(y_ptr, *y_array, align=16)
        if scale_ptr is not None:
            scale = T.match_buffer(scale_ptr, (scales,), "float32", align=16)
            scalars = T.match_buffer(scalars_ptr, (scalar_words(epilogue),), "float32", align=16)
        else:
            scale = T.meta_var(bias)
            scalars = T.meta_var(bias)
        if row_scale_ptr is not None:
            row_scale = T.match_buffer(row_scale_ptr, workload.y_shape[:1], "float32", align=16)
        else:
            row_scale = T.meta_var(bias)
        if residual_ptr is not None:
            residual_nhwc = T.match_buffer(residual_ptr, *residual_array, align=16)
        else:
            residual_nhwc = T.meta_var(y_nhwc)
        x = T.decl_buffer((math.prod(x_array[0]),), x_array[1], data=x_nhwc.data)
        y = T.decl_buffer((math.prod(y_array[0]),), moved_as(y_array[1]), data=y_nhwc.data)
        residual = T.decl_buffer(
            (math.prod(residual_array[0]),), moved_as(residual_array[1]), data=residual_nhwc.data
        )

        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": config.blocks_per_sm})
        block = T.cta_id([tiling.tiles_m * tiling.tiles_n])
        index = T.thread_id([config.threads])
        smem = T.alloc_buffer((tiling.smem_bytes,), "uint8", scope="shared.dyn", align=128)
        tile = T.meta_var(tile_of(block, tiling.tiles_m, tiling.tiles_n, _RASTER_GROUP))
        m: T.int32 = tile[0]
        n: T.int32 = tile[1]
        lane: T.int32 = index % 32
        warp_row: T.int32 = index // 32 % config.BLK_ROW_WARPS
        warp_column: T.int32 = index // 32 // config.BLK_ROW_WARPS
        accumulator = T.alloc_local((config.accumulators,), "uint32")
        a = T.alloc_local((plan.pixel_registers,), "uint32")
        b = T.alloc_local((2 * config.WARP_COL_TILES * 2,), "uint32")
        origin = T.alloc_local((rounds,), "int32")
        taps = T.alloc_local((rounds,), "uint32")
        held_pixels = T.alloc_local((rounds * plan.piece_words,), "uint32")
        held_weights = T.alloc_local((plan.weight_rounds * 4,), "uint32")
        words = T.alloc_local((plan.residual_registers,), "uint32")
        thread = T.meta_var(WarpThread(index, lane, warp_row, warp_column))
        fragments = T.meta_var(Fragments(a, b))
        pixels = T.meta_var(PixelCopies(x, origin, taps, held_pixels))
        weights = T.meta_var(WeightCopies(weight, n, held_weights))
        arrays = T.meta_var(EpilogueArrays(bias, scale, scalars, residual, words, y, row_scale))

        @T.inline
        def fetch_step(step, stage):
            fetch(plan, smem, pixels, weights, step, stage, thread)

        @T.inline
        def fetch_next(step):
            fetch_step(step, 0)

        @T.inline
        def keep_stage(stage):
            keep(plan, smem, pixels, weights, stage, thread)

        @T.inline
        def unpack_step(step):
            take(plan, smem, pixels, weights, step % stages, thread)
            keep(plan, smem, pixels, weights, step % tiling.tile_stages, thread)

        @T.inline
        def multiply(stage, step):
            if tiling.box is None:
                multiply_stage(plan, smem, accumulator, fragments, stage, thread)
            else:
                multiply_taps(plan, smem, accumulator, fragments, stage, thread)
            if epilogue.scale_group > 0:
                end_group(plan, sums, accumulator, arrays, n, step, thread)

        if epilogue.table:
            fill_table(plan, smem, scalars, lane)
        for i in T.unroll(config.accumulators):
            accumulator[i] = T.uint32(0)
        if epilogue.scale_group > 0:
            sums = T.alloc_local((config.accumulators,), "float32")
            for i in T.unroll(config.accumulators):
                sums[i] = T.float32(0)
        first_byte = T.meta_var(n // tiling.group_tiles_n * plan.source_byte(tiling.group_bytes))
        if tiling.box is None:
            locate_pixels(plan, pixels, m, first_byte, thread)
        else:
            locate_halo(plan, pixels, m, first_byte, thread)
        if plan.overlaps:
            wait_for_predecessors()
            start_successor()
        if plan.staged:
            multiply_unpacked(stages, tiling.tile_stages, steps, fetch_step, unpack_step, multiply)
        elif plan.asynchronous:
            multiply_from_ring(stages, steps, fetch_step, multiply)
        else:
            multiply_from_registers(steps, fetch_next, keep_stage, multiply)
        if epilogue.scale_group > 0:
            for i in T.unroll(config.accumulators):
                accumulator[i] = T.reinterpret("uint32", sums[i])
        elif plan.accumulator_shift > 0:
            unscale(plan, accumulator)
        if config.packing == "shared":
            store_staged(plan, smem, accumulator, arrays, TilePlace(m, n), thread)
        else:
            store_tile(plan, smem, accumulator, arrays, TilePlace(m, n), thread)

    absent = {} if epilogue.residual_dtype else {"residual_ptr": None}
    if epilogue.out_dtype == "int32":
        absent |= {"scale_ptr": None, "scalars_ptr": None}
    if not epilogue.row_scale:
        absent["row_scale_ptr"] = None
    kernel = main.specialize(**absent)
    return overlapping(kernel) if plan.overlaps else kernel
