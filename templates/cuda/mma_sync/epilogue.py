"""Epilogue of the mma.sync kernel: accumulator fragments to packed output rows."""

from tvm.script import tirx as T

from autoq.templates.borders.row import bias_row
from autoq.templates.cuda.mma_sync.rows import (
    output_channel,
    output_start,
    pixel_of_row,
    pixel_start,
)
from autoq.templates.epilogue.cuda.parameters.lookups import table_argument


def row_start(plan, dtype, m, row):
    """Element of an array like y, of a dtype, where channel 0 of a row of tile m lies."""
    if plan.tiling.box is None:
        return output_start(plan.conv, dtype, m * plan.config.block_m + row)
    return pixel_start(plan.conv, dtype, *plan.tiling.box.pixel(m, row))


def row_inside(plan, m, row):
    """1 where a row of tile m is an output pixel, else 0."""
    conv, box = plan.conv, plan.tiling.box
    if box is None:
        inside = m * plan.config.block_m + row < plan.tiling.rows
    else:
        image, p, q = box.pixel(m, row)
        inside = T.And(T.And(image < conv.n, p < conv.p), q < conv.q)
    return T.if_then_else(inside, 1, 0)


def row_scales(plan, arrays, m, rows):
    """The scales of two rows of tile m, where the epilogue has them."""
    box = plan.tiling.box
    images = [
        pixel_of_row(plan.conv, m * plan.config.block_m + row)[0]
        if box is None
        else box.pixel(m, row)[0]
        for row in rows
    ]
    exist = [row_inside(plan, m, row) != 0 for row in rows]
    return arrays.row_scales(plan.conv.epilogue, images, exist)


def bias_start(plan, m, row):
    """Offset of the bias table's row for a row of tile m."""
    box = plan.tiling.box
    whole = m * plan.config.block_m + row
    _, p, q = pixel_of_row(plan.conv, whole) if box is None else box.pixel(m, row)
    return bias_row(*plan.classes, p, q) * plan.tiling.padded_k


@T.meta_class
class ThreadRows:
    """Two rows of tile m that a thread stores, 8 apart.

    first: the upper one; inside: whether each of them is an output pixel, 1 or 0.
    """

    def __init__(self, m, first, inside):
        self.m = m
        self.first = first
        self.inside = inside


@T.meta_class
class ThreadChannels:
    """A thread's channels of a tile, by where its first lies.

    group: of the convolution; loaded, stored: in the group, of residuals and of outputs; packed: in
    the packed constants.
    """

    def __init__(self, group, loaded, stored, packed):
        self.group = group
        self.loaded = loaded
        self.stored = stored
        self.packed = packed


@T.inline
def load_residuals(plan, arrays, rows, channels):
    """The residuals of a thread's two rows, 8 apart, in all its channel groups."""
    config = T.meta_var(plan.config)
    count = T.meta_var(plan.epilogue.residual_words)
    dtype = T.meta_var(plan.conv.epilogue.residual_dtype)
    for half in T.unroll(2):
        start: T.int32 = row_start(plan, dtype, rows.m, rows.first + half * 8)
        for i in T.unroll(config.column_groups):
            first = T.meta_var(channels.loaded + i * 4 * config.run)
            in_row = T.meta_var(channels.group * plan.tiling.group_k + first)
            T.cuda.func_call(
                plan.load_residual.name,
                arrays.words.ptr_to([(half * config.column_groups + i) * count]),
                arrays.residual.ptr_to([start + output_channel(plan.conv, dtype, in_row)]),
                rows.inside[half],
                plan.tiling.group_k - first,
                source_code=plan.load_residual.source,
            )


@T.inline
def store_rows(plan, smem, accumulator, arrays, i, rows, channels):
    """A thread's two rows of row tile i."""
    config = T.meta_var(plan.config)
    count = T.meta_var(plan.epilogue.residual_words)
    dtype = T.meta_var(plan.conv.epilogue.out_dtype)
    upper: T.int32 = bias_start(plan, rows.m, rows.first)
    lower: T.int32 = bias_start(plan, rows.m, rows.first + 8)
    upper_y: T.int32 = row_start(plan, dtype, rows.m, rows.first)
    lower_y: T.int32 = row_start(plan, dtype, rows.m, rows.first + 8)
    for g in T.unroll(config.column_groups):
        first = T.meta_var(g * 4 * config.run)
        channel = T.meta_var(channels.stored + first)
        in_row = T.meta_var(
            output_channel(plan.conv, dtype, channels.group * plan.tiling.group_k + channel)
        )
        T.cuda.func_call(
            plan.requantise.name,
            accumulator.ptr_to([(i * config.WARP_COL_TILES + g * config.run // 2) * 4]),
            arrays.scale.ptr_to([channels.packed + first]),
            arrays.bias.ptr_to([upper + channels.packed + first]),
            arrays.bias.ptr_to([lower + channels.packed + first]),
            arrays.scalars.ptr_to([0]),
            arrays.words.ptr_to([g * count]),
            arrays.words.ptr_to([(config.column_groups + g) * count]),
            arrays.y.ptr_to([upper_y + in_row]),
            arrays.y.ptr_to([lower_y + in_row]),
            rows.inside[0],
            rows.inside[1],
            plan.tiling.group_k - channel,
            *row_scales(plan, arrays, rows.m, (rows.first, rows.first + 8)),
            *table_argument(plan, smem),
            source_code=plan.requantise.source,
        )


@T.inline
def store_tile(plan, smem, accumulator, arrays, place, thread):
    """Requantise, pack and store a warp's part of an output tile."""
    config = T.meta_var(plan.config)
    in_block = T.meta_var(thread.warp_column * config.warp_n)
    in_operands = T.meta_var(in_block + thread.lane % 4 * config.lane_channels)
    in_output = T.meta_var(in_block + thread.lane % 4 * config.run)
    group: T.int32 = place.n // plan.tiling.group_tiles_n
    first: T.int32 = place.n % plan.tiling.group_tiles_n * config.block_n
    packed: T.int32 = place.n * config.block_n + in_operands
    channels = T.meta_var(ThreadChannels(group, first + in_operands, first + in_output, packed))
    inside = T.alloc_local((2,), "int32")
    for i in T.unroll(config.WARP_ROW_TILES):
        row: T.int32 = thread.warp_row * config.warp_m + i * 16 + thread.lane // 4
        rows = T.meta_var(ThreadRows(place.m, row, inside))
        for half in T.unroll(2):
            inside[half] = row_inside(plan, place.m, row + half * 8)
        if plan.epilogue.residual_words > 0:
            load_residuals(plan, arrays, rows, channels)
        store_rows(plan, smem, accumulator, arrays, i, rows, channels)
