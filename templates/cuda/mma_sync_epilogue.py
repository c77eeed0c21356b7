"""Epilogue of the mma.sync kernel: accumulator fragments to packed output rows."""

from tvm.script import tirx as T

from autoq.templates.cuda.mma_sync_rows import output_channel, output_start, pixel_of_row
from autoq.templates.tiles.border_bias import bias_row


def bias_start(plan, row):
    """Offset of the bias table's row for an output pixel."""
    rows, columns = plan.classes
    _, p, q = pixel_of_row(plan.conv, row)
    return bias_row(rows, columns, p, q) * plan.tiling.padded_k


@T.inline
def load_residuals(plan, words, residual, row, group, channel):
    """The residuals of a thread's two rows, 8 apart, in all its channel groups."""
    config = T.meta_var(plan.config)
    count = T.meta_var(plan.epilogue.residual_words)
    for half in T.unroll(2):
        for i in T.unroll(config.column_groups):
            first = T.meta_var(channel + i * 4 * config.run)
            dtype = T.meta_var(plan.conv.epilogue.residual_dtype)
            start = T.meta_var(output_start(plan.conv, dtype, row + half * 8))
            in_row = T.meta_var(group * plan.tiling.group_k + first)
            T.cuda.func_call(
                plan.load_residual.name,
                words.ptr_to([(half * config.column_groups + i) * count]),
                residual.ptr_to([start + output_channel(plan.conv, dtype, in_row)]),
                T.if_then_else(row + half * 8 < plan.tiling.rows, 1, 0),
                plan.tiling.group_k - first,
                source_code=plan.load_residual.source,
            )


@T.inline
def store_rows(plan, accumulator, words, bias, scale, scalars, y, i, row, group, channel, packed):
    """A thread's two rows of row tile i.

    channel counts within the group of the convolution, packed in the packed constants.
    """
    config = T.meta_var(plan.config)
    count = T.meta_var(plan.epilogue.residual_words)
    upper: T.int32 = bias_start(plan, row)
    lower: T.int32 = bias_start(plan, row + 8)
    dtype = T.meta_var(plan.conv.epilogue.out_dtype)
    upper_y: T.int32 = output_start(plan.conv, dtype, row)
    lower_y: T.int32 = output_start(plan.conv, dtype, row + 8)
    for g in T.unroll(config.column_groups):
        first = T.meta_var(g * 4 * config.run)
        in_row = T.meta_var(
            output_channel(plan.conv, dtype, group * plan.tiling.group_k + channel + first)
        )
        T.cuda.func_call(
            plan.requantise.name,
            accumulator.ptr_to([(i * config.WARP_COL_TILES + g * config.run // 2) * 4]),
            scale.ptr_to([packed + first]),
            bias.ptr_to([upper + packed + first]),
            bias.ptr_to([lower + packed + first]),
            scalars.ptr_to([0]),
            words.ptr_to([g * count]),
            words.ptr_to([(config.column_groups + g) * count]),
            y.ptr_to([upper_y + in_row]),
            y.ptr_to([lower_y + in_row]),
            T.if_then_else(row < plan.tiling.rows, 1, 0),
            T.if_then_else(row + 8 < plan.tiling.rows, 1, 0),
            plan.tiling.group_k - (channel + first),
            source_code=plan.requantise.source,
        )


@T.inline
def store_tile(
    plan, accumulator, words, residual, bias, scale, scalars, y, m, n, warp_row, warp_column, lane
):
    """Requantise, pack and store a warp's part of an output tile."""
    config = T.meta_var(plan.config)
    in_block = T.meta_var(warp_column * config.warp_n + lane % 4 * config.run)
    group: T.int32 = n // plan.tiling.group_tiles_n
    channel: T.int32 = n % plan.tiling.group_tiles_n * config.block_n + in_block
    packed: T.int32 = n * config.block_n + in_block
    for i in T.unroll(config.WARP_ROW_TILES):
        row: T.int32 = m * config.block_m + warp_row * config.warp_m + i * 16 + lane // 4
        if plan.epilogue.residual_words > 0:
            load_residuals(plan, words, residual, row, group, channel)
        store_rows(
            plan, accumulator, words, bias, scale, scalars, y, i, row, group, channel, packed
        )
