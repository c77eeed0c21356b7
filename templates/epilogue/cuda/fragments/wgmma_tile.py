"""Epilogue of the wgmma pipeline: accumulator fragments to packed output rows."""

from tvm.script import tirx as T

from autoq.templates.epilogue.cuda.parameters.lookups import table_argument
from autoq.templates.epilogue.cuda.short_forms.words import (
    IS_CONVERTED,
    IS_ONE_SCALE,
    IS_READ,
    NEITHER,
    START_WORD,
    WORDS,
)


@T.meta_class
class ThreadShare:
    """What a thread finishes of an output tile: two rows of each 64 of its consumer.

    place: of the tile; first_row: where the consumer's rows begin in it; part: which slice of the
    consumer's accumulators it finishes; block: the one of the consumer's 64-row blocks that it
    finishes, None for all of them.
    """

    def __init__(self, place, thread, first_row, part=0, block=None):
        self.place = place
        self.thread = thread
        self.first_row = first_row
        self.part = part
        self.block = block

    def steps(self, plan):
        """How many units it stores."""
        return plan.units if self.block is None else plan.groups

    def unit(self, plan, step):
        """The unit that it stores at a step."""
        if self.block is None:
            return plan.unit(step, self.part)
        return plan.unit_of(self.block, step)

    def row(self, block, half):
        """Tile row of a thread's accumulators: its warp's 16 rows, 8 apart for the two halves."""
        thread = self.thread
        return self.first_row + block * 64 + thread.warp * 16 + half * 8 + thread.lane // 4

    def channel(self, plan, group):
        """First of a thread's consecutive output channels in a group of columns."""
        first = self.place.n * plan.config.block_n + plan.column(group)
        return first + self.thread.lane % 4 * plan.channels

    def pixel(self, plan, block, half):
        """The pixel of one of a thread's two rows of a 64-row block."""
        return plan.load.pixel(self.place.m, self.row(block, half))

    def pixels(self, plan, block):
        """The pixels of both."""
        return [self.pixel(plan, block, half) for half in (0, 1)]


def row_sums(plan, accumulator, arrays, unit, pixels, channel):
    """What every requantising function takes first: sums, scales, biases of both rows, scalars."""
    return [
        accumulator.ptr_to([unit.accumulator]),
        arrays.scale.ptr_to([channel]),
        *(arrays.bias.ptr_to([plan.bias_offset(pixel) + channel]) for pixel in pixels),
        arrays.scalars.ptr_to([0]),
    ]


def row_stores(plan, arrays, unit, pixels, channel):
    """What every requantising function takes last but for a table.

    Residuals, outputs, whether they exist, channels left and row scales.
    """
    return [
        *(arrays.words.ptr_to([plan.residual_at(unit, half)]) for half in (0, 1)),
        *(arrays.output(pixel, channel, plan.workload.k) for pixel in pixels),
        *(T.if_then_else(pixel.exists, 1, 0) for pixel in pixels),
        plan.workload.k - channel,
        *arrays.row_scales(
            plan.workload.epilogue,
            [pixel.index // (plan.workload.p * plan.workload.q) for pixel in pixels],
            [pixel.exists for pixel in pixels],
        ),
    ]


@T.inline
def fetch_residual_rows(plan, arrays, unit, share):
    """The residuals of a thread's two rows and one channel group, into registers."""
    for half in T.unroll(2):
        pixel = T.meta_var(share.pixel(plan, unit.block, half))
        channel = T.meta_var(share.channel(plan, unit.group))
        T.cuda.func_call(
            plan.load_residual.name,
            arrays.words.ptr_to([plan.residual_at(unit, half)]),
            arrays.residual.ptr_to([pixel.index * plan.workload.k + channel]),
            T.if_then_else(pixel.exists, 1, 0),
            plan.workload.k - channel,
            source_code=plan.load_residual.source,
        )


@T.inline
def fetch_residuals(plan, arrays, share):
    """All residuals of a thread's slice, before the main loop."""
    for step in T.unroll(plan.units):
        fetch_residual_rows(plan, arrays, plan.unit(step, share.part), share)


@T.inline
def read_limits(plan, limits, scalars):
    """The numbers of the short forms, and the residual's zero point behind them."""
    for i in T.unroll(WORDS):
        limits[i] = scalars[plan.limits_at + i]
    limits[WORDS] = scalars[4]


@T.inline
def start_from_table(plan, accumulator, smem, slot, bias, share):
    """Load the bias into the accumulators of a thread's tile."""
    for block in T.unroll(plan.config.m_blocks):
        pixels = T.meta_var(share.pixels(plan, block))
        for group in T.unroll(plan.groups):
            channel = T.meta_var(share.channel(plan, group))
            at = T.meta_var(plan.unit_of(block, group).accumulator)
            if plan.table_start:
                table = T.meta_var(
                    smem.ptr_to([plan.memory.table_at(slot, plan.column(group), share.thread.lane)])
                )
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
def keep_start(plan, smem, limits, thread):
    """Consumer: before its first tile, what all accumulators of its tiles start from."""
    T.cuda.func_call(
        plan.keep_start.name,
        smem.ptr_to([plan.memory.start_at(thread)]),
        limits[START_WORD],
        thread.lane,
        source_code=plan.keep_start.source,
    )


@T.inline
def start_tile(plan, accumulator, smem, slot, bias, share):
    """What the accumulators of a thread's tile start from: all alike where they are uniform."""
    if plan.uniform:
        T.cuda.func_call(
            plan.start_alike.name,
            accumulator.ptr_to([0]),
            smem.ptr_to([plan.memory.start_at(share.thread)]),
            source_code=plan.start_alike.source,
        )
    else:
        start_from_table(plan, accumulator, smem, slot, bias, share)
        if plan.config.last_columns > 0:
            start_from_table(plan.of_last_columns, accumulator, smem, slot, bias, share)


@T.inline
def store_bounded_tile(plan, rows, accumulator, arrays, smem, slot, limits, share):
    """`store_tile` in the short form `rows`, where its first number says that it is exact."""
    for step in T.unroll(share.steps(plan)):
        unit = T.meta_var(share.unit(plan, step))
        channel = T.meta_var(share.channel(plan, unit.group))
        if plan.residual_ahead:
            for half in T.unroll(2):
                shared = T.meta_var(
                    plan.memory.shared_residual_at(
                        slot, unit.group, share.row(unit.block, half), share.thread.lane
                    )
                )
                T.cuda.func_call(
                    plan.shared_residual.name,
                    arrays.words.ptr_to([plan.residual_at(unit, half)]),
                    smem.ptr_to([shared]),
                    source_code=plan.shared_residual.source,
                )
        elif plan.residual_late:
            fetch_residual_rows(plan, arrays, unit, share)
        pixels = T.meta_var(share.pixels(plan, unit.block))
        T.cuda.func_call(
            rows.name,
            accumulator.ptr_to([unit.accumulator]),
            smem.ptr_to([plan.memory.scale_at(slot, plan.column(unit.group), share.thread.lane)]),
            limits.ptr_to([0]),
            limits[WORDS],
            *row_stores(plan, arrays, unit, pixels, channel),
            *table_argument(plan, smem),
            source_code=rows.source,
        )


@T.inline
def store_tile(plan, accumulator, arrays, smem, share):
    """Requantise, pack and store a consumer warpgroup's slice of an output tile."""
    for step in T.unroll(share.steps(plan)):
        unit = T.meta_var(share.unit(plan, step))
        channel = T.meta_var(share.channel(plan, unit.group))
        if plan.residual_late:
            fetch_residual_rows(plan, arrays, unit, share)
        pixels = T.meta_var(share.pixels(plan, unit.block))
        T.cuda.func_call(
            plan.requantise.name,
            *row_sums(plan, accumulator, arrays, unit, pixels, channel),
            *row_stores(plan, arrays, unit, pixels, channel),
            *table_argument(plan, smem),
            source_code=plan.requantise.source,
        )


@T.inline
def store_of_one_scale(plan, accumulator, arrays, smem, slot, limits, share):
    """`store_tile` of a uniform epilogue, in the shorter form where its first number says so."""
    if limits[0] == T.float32(IS_ONE_SCALE):
        store_bounded_tile(
            plan, plan.one_scale_rows, accumulator, arrays, smem, slot, limits, share
        )
    else:
        store_bounded_tile(plan, plan.uniform_rows, accumulator, arrays, smem, slot, limits, share)


@T.inline
def store_without_residual(plan, accumulator, arrays, smem, slot, limits, share):
    """`store_tile` of bytes without a residual, in the shortest form that the operands allow.

    Nearly all tables' are read, so that their kernels have no other short form.
    """
    if plan.convertible & (limits[0] == T.float32(IS_CONVERTED)):
        store_bounded_tile(
            plan, plan.converted_rows, accumulator, arrays, smem, slot, limits, share
        )
    elif limits[0] == T.float32(IS_READ):
        store_bounded_tile(plan, plan.read_rows, accumulator, arrays, smem, slot, limits, share)
    elif (not plan.long_table) & (limits[0] != T.float32(NEITHER)):
        store_bounded_tile(plan, plan.bounded_rows, accumulator, arrays, smem, slot, limits, share)
    else:
        store_tile(plan, accumulator, arrays, smem, share)


@T.inline
def store_groups_in_a_form(plan, accumulator, arrays, smem, slot, limits, share):
    """`store_tile` in the shortest form that the operands allow."""
    if plan.uniform:
        store_of_one_scale(plan, accumulator, arrays, smem, slot, limits, share)
    elif plan.readable:
        store_without_residual(plan, accumulator, arrays, smem, slot, limits, share)
    elif plan.bounded:
        if plan.convertible & (limits[0] == T.float32(IS_CONVERTED)):
            store_bounded_tile(
                plan, plan.converted_rows, accumulator, arrays, smem, slot, limits, share
            )
        elif limits[0] != T.float32(NEITHER):
            store_bounded_tile(
                plan, plan.bounded_rows, accumulator, arrays, smem, slot, limits, share
            )
        else:
            store_tile(plan, accumulator, arrays, smem, share)
    else:
        store_tile(plan, accumulator, arrays, smem, share)


@T.inline
def store_in_a_form(plan, accumulator, arrays, smem, slot, limits, share):
    """Store a slice of a tile: its groups of columns, and the last columns where it has such."""
    store_groups_in_a_form(plan, accumulator, arrays, smem, slot, limits, share)
    if plan.config.last_columns > 0:
        store_groups_in_a_form(plan.of_last_columns, accumulator, arrays, smem, slot, limits, share)
