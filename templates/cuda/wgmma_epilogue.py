"""Epilogue of the wgmma pipeline: accumulator fragments to packed output rows."""

from tvm.script import tirx as T


def fragment_row(plan, first_row, block, half, warp, lane):
    """Tile row of a thread's accumulators: its warp's 16 rows, 8 apart for the two halves."""
    return first_row + block * 64 + warp * 16 + half * 8 + lane // 4


def first_channel(plan, n, group, lane):
    """First of a thread's consecutive output channels in a group of columns."""
    return n * plan.config.block_n + group * (4 * plan.channels) + lane % 4 * plan.channels


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
        upper = T.meta_var(plan.load.pixel(m, fragment_row(plan, first_row, block, 0, warp, lane)))
        lower = T.meta_var(plan.load.pixel(m, fragment_row(plan, first_row, block, 1, warp, lane)))
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
                    bias.ptr_to([plan.bias_offset(upper) + channel]),
                    bias.ptr_to([plan.bias_offset(lower) + channel]),
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
        upper = T.meta_var(
            plan.load.pixel(m, fragment_row(plan, first_row, unit.block, 0, warp, lane))
        )
        lower = T.meta_var(
            plan.load.pixel(m, fragment_row(plan, first_row, unit.block, 1, warp, lane))
        )
        T.cuda.func_call(
            rows.name,
            accumulator.ptr_to([unit.accumulator]),
            smem.ptr_to([plan.scale_at(slot, unit.group, lane)]),
            limits.ptr_to([0]),
            limits[8],
            words.ptr_to([plan.residual_at(unit, 0)]),
            words.ptr_to([plan.residual_at(unit, 1)]),
            y.ptr_to([upper.index * plan.workload.k + channel]),
            y.ptr_to([lower.index * plan.workload.k + channel]),
            T.if_then_else(upper.exists, 1, 0),
            T.if_then_else(lower.exists, 1, 0),
            plan.workload.k - channel,
            source_code=rows.source,
        )


@T.inline
def store_tile(
    plan, accumulator, words, residual, bias, scale, scalars, y, m, n, part, first_row, warp, lane
):
    """Requantise, pack and store a consumer warpgroup's slice of an output tile."""
    for step in T.unroll(plan.units):
        unit = T.meta_var(plan.unit(step, part))
        channel = T.meta_var(first_channel(plan, n, unit.group, lane))
        if plan.residual_late:
            fetch_residual_rows(plan, words, residual, m, n, unit, first_row, warp, lane)
        upper = T.meta_var(
            plan.load.pixel(m, fragment_row(plan, first_row, unit.block, 0, warp, lane))
        )
        lower = T.meta_var(
            plan.load.pixel(m, fragment_row(plan, first_row, unit.block, 1, warp, lane))
        )
        T.cuda.func_call(
            plan.requantise.name,
            accumulator.ptr_to([unit.accumulator]),
            scale.ptr_to([channel]),
            bias.ptr_to([plan.bias_offset(upper) + channel]),
            bias.ptr_to([plan.bias_offset(lower) + channel]),
            scalars.ptr_to([0]),
            words.ptr_to([plan.residual_at(unit, 0)]),
            words.ptr_to([plan.residual_at(unit, 1)]),
            y.ptr_to([upper.index * plan.workload.k + channel]),
            y.ptr_to([lower.index * plan.workload.k + channel]),
            T.if_then_else(upper.exists, 1, 0),
            T.if_then_else(lower.exists, 1, 0),
            plan.workload.k - channel,
            source_code=plan.requantise.source,
        )
