"""The epilogue that packs behind shared memory: int32 accumulators of a whole tile pass through it.

The baseline of packing in registers (section 3.2 of the paper, figure 5): it takes four times the
shared memory of packed bytes. Threads then take 4 consecutive channels of two rows each.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.mma_sync.config import STAGED_RUN
from autoq.templates.cuda.mma_sync.epilogue import bias_start, row_inside, row_scales, row_start
from autoq.templates.cuda.mma_sync.rows import output_channel
from autoq.templates.epilogue.cuda.parameters.lookups import table_argument


@T.meta_class
class RunChannels:
    """Four consecutive channels that a thread stores, by where the first lies.

    stored: in the output; left: how many its group has from there on.
    """

    def __init__(self, stored, left):
        self.stored = stored
        self.left = left


@T.inline
def stage_accumulators(plan, smem, accumulator, thread):
    """A warp's accumulators to shared memory, int32 [block_m, staged_pitch]."""
    config = T.meta_var(plan.config)
    for i in T.unroll(config.WARP_ROW_TILES):
        for j in T.unroll(config.WARP_COL_TILES):
            for half in T.unroll(2):
                row = T.meta_var(
                    thread.warp_row * config.warp_m + i * 16 + half * 8 + thread.lane // 4
                )
                column = T.meta_var(
                    thread.warp_column * config.warp_n + j * 8 + thread.lane % 4 * 2
                )
                first = T.meta_var((i * config.WARP_COL_TILES + j) * 4 + half * 2)
                T.ptx[plan.keep(2)](
                    smem.ptr_to([(row * config.staged_pitch + column) * 4]),
                    accumulator[first],
                    accumulator[first + 1],
                )


def take_row(plan, smem, gathered, row, column, half):
    """Emit the load of 4 accumulators of a row, as the row `half` of two in `gathered`."""
    registers = [gathered[pair * 4 + half * 2 + e] for pair in range(2) for e in range(2)]
    at = (row * plan.config.staged_pitch + column) * 4
    T.evaluate(T.ptx[plan.take(STAGED_RUN)](*registers, smem.ptr_to([at])))


def load_residual(plan, arrays, m, row, channels, half):
    """Emit the load of the residual of 4 channels of a row."""
    dtype = plan.conv.epilogue.residual_dtype
    start = row_start(plan, dtype, m, row) + output_channel(plan.conv, dtype, channels.stored)
    T.evaluate(
        T.cuda.func_call(
            plan.load_residual.name,
            arrays.words.ptr_to([half * plan.epilogue.residual_words]),
            arrays.residual.ptr_to([start]),
            row_inside(plan, m, row),
            channels.left,
            source_code=plan.load_residual.source,
        )
    )


def store_pair(plan, smem, gathered, arrays, m, rows, channels, packed):
    """Emit the epilogue of 4 channels of two rows; packed: where constants of the first lie."""
    dtype = plan.conv.epilogue.out_dtype
    in_row = output_channel(plan.conv, dtype, channels.stored)
    T.evaluate(
        T.cuda.func_call(
            plan.requantise.name,
            gathered.ptr_to([0]),
            arrays.scale.ptr_to([packed]),
            *[arrays.bias.ptr_to([bias_start(plan, m, row) + packed]) for row in rows],
            arrays.scalars.ptr_to([0]),
            *[arrays.words.ptr_to([half * plan.epilogue.residual_words]) for half in range(2)],
            *[arrays.y.ptr_to([row_start(plan, dtype, m, row) + in_row]) for row in rows],
            *[row_inside(plan, m, row) for row in rows],
            channels.left,
            *row_scales(plan, arrays, m, rows),
            *table_argument(plan, smem),
            source_code=plan.requantise.source,
        )
    )


@T.inline
def store_staged(plan, smem, accumulator, arrays, place, thread):
    """Requantise, pack and store an output tile by way of shared memory."""
    config = T.meta_var(plan.config)
    gathered = T.alloc_local((2 * STAGED_RUN,), "uint32")
    T.cuda.cta_sync()
    stage_accumulators(plan, smem, accumulator, thread)
    T.cuda.cta_sync()
    runs = T.meta_var(config.block_n // STAGED_RUN)
    pairs = T.meta_var(config.block_m // 2 * runs)
    for i in T.serial(-(-pairs // config.threads), unroll=False):
        pair: T.int32 = i * config.threads + thread.index
        if pair < pairs:
            upper: T.int32 = pair // runs
            lower: T.int32 = upper + config.block_m // 2
            column: T.int32 = pair % runs * STAGED_RUN
            channel: T.int32 = place.n % plan.tiling.group_tiles_n * config.block_n + column
            in_group: T.int32 = place.n // plan.tiling.group_tiles_n * plan.tiling.group_k + channel
            left: T.int32 = plan.tiling.group_k - channel
            channels = T.meta_var(RunChannels(in_group, left))
            take_row(plan, smem, gathered, upper, column, 0)
            take_row(plan, smem, gathered, lower, column, 1)
            if plan.epilogue.residual_words > 0:
                load_residual(plan, arrays, place.m, upper, channels, 0)
                load_residual(plan, arrays, place.m, lower, channels, 1)
            rows = T.meta_var((upper, lower))
            packed: T.int32 = place.n * config.block_n + column
            store_pair(plan, smem, gathered, arrays, place.m, rows, channels, packed)
