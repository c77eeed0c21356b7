"""Epilogue of the wgmma pipeline: accumulator fragments to packed output rows."""

from tvm.script import tirx as T

from autoq.templates.epilogue.cuda.lookups import table_argument


def fragment_row(plan, first_row, block, half, warp, lane):
    """Tile row of a thread's accumulators: its warp's 16 rows, 8 apart for the two halves."""
    return first_row + block * 64 + warp * 16 + half * 8 + lane // 4


def first_channel(plan, n, group, lane):
    """First of a thread's consecutive output channels in a group of columns."""
    return n * plan.config.block_n + group * (4 * plan.channels) + lane % 4 * plan.channels


def block_pixels(plan, m, block, first_row, warp, lane):
    """The pixels of a thread's two rows of a 64-row block."""
    rows = [fragment_row(plan, first_row, block, half, warp, lane) for half in (0, 1)]
    return [plan.load.pixel(m, row) for row in rows]


def row_stores(plan, words, y, unit, pixels, channel):
    """What every requantising function takes last: residuals, outputs, whether they exist, tail."""
    return [
        *(words.ptr_to([plan.residual_at(unit, half)]) for half in (0, 1)),
        *(y.ptr_to([pixel.index * plan.workload.k + channel]) for pixel in pixels),
        *(T.if_then_else(pixel.exists, 1, 0) for pixel in pixels),
        plan.workload.k - channel,
    ]


@T.inline
def fetch_residual_rows(plan, words, residual, m, n, unit, first_row, warp, lane):
    """The residuals of a thread's two rows and one channel group, into registers."""
    for half in T.unroll(2):
        pixel = T.meta_var(
            plan.load.pixel(m, fragment_row(plan, first_row, unit.block, half, warp, lane))
        )
        channel = T.meta_var(first_channel(plan, n, unit.group, lane))
        T.cuda.func_call(
            plan.load_residual.name,
            words.ptr_to([plan.residual_at(unit, half)]),
            residual.ptr_to([pixel.index * plan.workload.k + channel]),
            T.if_then_else(pixel.exists, 1, 0),
            plan.workload.k - channel,
            source_code=plan.load_residual.source,
        )


@T.inline
def fetch_residuals(plan, words, residual, m, n, part, first_row, warp, lane):
    """All residuals of a thread's slice, before the main loop."""
    for step in T.unroll(plan.units):
        unit = T.meta_var(plan.unit(step, part))
        fetch_residual_rows(plan, words, residual, m, n, unit, first_row, warp, lane)


@T.inline
def start_tile(plan, accumulator, smem, slot, bias, m, n, first_row, warp, lane):
    """Load the bias into the accumulators of a thread's tile."""
    for block in T.unroll(plan.config.m_blocks):
        pixels = T.meta_var(block_pixels(plan, m, block, first_row, warp, lane))
        for group in T.unroll(plan.groups):
            channel = T.meta_var(first_channel(plan, n, group, lane))
            at = T.meta_var(block * plan.block_accumulators + group * 2 * plan.channels)
            if plan.table_start:
                table = T.meta_var(smem.ptr_to([plan.table_at(slot, group, lane)]))
                T.cuda.func_call(
                    plan.start_rows.name, accumulator.ptr_to([at]), table, table,
                    source_code=plan.start_rows.source,
                )  # fmt: skip
            else:
                T.cuda.func_call(
                    plan.start_rows.name,
                    accumulator.ptr_to([at]),
                    bias.ptr_to([plan.bias_offset(pixels[0]) + channel]),
                    bias.ptr_to([plan.bias_offset(pixels[1]) + channel]),
                    source_code=plan.start_rows.source,
                )


@T.inline
def store_bounded_tile(
    plan, rows, accumulator, words, residual, smem, slot, limits, y, m, n, part, first_row, warp,
    lane,
):  # fmt: skip
    """`store_tile` in the short form `rows`, where limits[0] says that it is exact."""
    for step in T.unroll(plan.units):
        unit = T.meta_var(plan.unit(step, part))
        channel = T.meta_var(first_channel(plan, n, unit.group, lane))
        if plan.residual_ahead:
            for half in T.unroll(2):
                row = T.meta_var(fragment_row(plan, first_row, unit.block, half, warp, lane))
                T.cuda.func_call(
                    plan.shared_residual.name,
                    words.ptr_to([plan.residual_at(unit, half)]),
                    smem.ptr_to([plan.shared_residual_at(slot, unit.group, row, lane)]),
                    source_code=plan.shared_residual.source,
                )
        elif plan.residual_late:
            fetch_residual_rows(plan, words, residual, m, n, unit, first_row, warp, lane)
        pixels = T.meta_var(block_pixels(plan, m, unit.block, first_row, warp, lane))
        T.cuda.func_call(
            rows.name,
            accumulator.ptr_to([unit.accumulator]),
            smem.ptr_to([plan.scale_at(slot, unit.group, lane)]),
            limits.ptr_to([0]),
            limits[8],
            *row_stores(plan, words, y, unit, pixels, channel),
            *table_argument(plan, smem),
            source_code=rows.source,
        )


@T.inline
def store_tile(
    plan, accumulator, words, residual, smem, bias, scale, scalars, y, m, n, part, first_row, warp,
    lane,
):  # fmt: skip
    """Requantise, pack and store a consumer warpgroup's slice of an output tile."""
    for step in T.unroll(plan.units):
        unit = T.meta_var(plan.unit(step, part))
        channel = T.meta_var(first_channel(plan, n, unit.group, lane))
        if plan.residual_late:
            fetch_residual_rows(plan, words, residual, m, n, unit, first_row, warp, lane)
        pixels = T.meta_var(block_pixels(plan, m, unit.block, first_row, warp, lane))
        T.cuda.func_call(
            plan.requantise.name,
            accumulator.ptr_to([unit.accumulator]),
            scale.ptr_to([channel]),
            bias.ptr_to([plan.bias_offset(pixels[0]) + channel]),
            bias.ptr_to([plan.bias_offset(pixels[1]) + channel]),
            scalars.ptr_to([0]),
            *row_stores(plan, words, y, unit, pixels, channel),
            *table_argument(plan, smem),
            source_code=plan.requantise.source,
        )
