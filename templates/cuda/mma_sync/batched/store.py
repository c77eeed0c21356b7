"""The end of a tile of a batched product: accumulators to rows of y."""

from tvm.script import tirx as T

from autoq.templates.epilogue.cuda.parameters.lookups import table_argument


@T.meta_class
class TileOfPair:
    """A block's tile: the pair of matrices it belongs to, and its first row and column."""

    def __init__(self, pair, row, column):
        self.pair = pair
        self.row = row
        self.column = column


@T.inline
def load_residuals(plan, arrays, starts, inside, column):
    """The residuals of a thread's two rows in all its groups of columns."""
    count = T.meta_var(plan.epilogue.residual_words)
    for half in T.unroll(2):
        for g in T.unroll(plan.column_groups):
            first = T.meta_var(column + g * 4 * plan.run)
            T.cuda.func_call(
                plan.load_residual.name,
                arrays.words.ptr_to([(half * plan.column_groups + g) * count]),
                arrays.residual.ptr_to([starts[half] + first]),
                inside[half],
                plan.workload.n - first,
                source_code=plan.load_residual.source,
            )


@T.inline
def store_rows(plan, smem, accumulator, arrays, first, starts, inside, column):
    """A thread's two rows of a row tile, whose accumulators begin at `first`."""
    count = T.meta_var(plan.epilogue.residual_words)
    for g in T.unroll(plan.column_groups):
        at = T.meta_var(column + g * 4 * plan.run)
        T.cuda.func_call(
            plan.requantise.name,
            accumulator.ptr_to([first + g * plan.run * 2]),
            arrays.scale.ptr_to([0]),
            arrays.bias.ptr_to([0]),
            arrays.bias.ptr_to([0]),
            arrays.scalars.ptr_to([0]),
            arrays.words.ptr_to([g * count]),
            arrays.words.ptr_to([(plan.column_groups + g) * count]),
            arrays.y.ptr_to([starts[0] + at]),
            arrays.y.ptr_to([starts[1] + at]),
            inside[0],
            inside[1],
            plan.workload.n - at,
            *table_argument(plan, smem),
            source_code=plan.requantise.source,
        )


@T.inline
def store_tile(plan, smem, accumulator, arrays, place, thread):
    """Requantise, pack and store a warp's part of a tile; rows beyond the last are not stored."""
    config = T.meta_var(plan.config)
    work = T.meta_var(plan.workload)
    places = T.meta_var(work.row_places(work.y_order, place.pair))
    column: T.int32 = (
        place.column + thread.warp_column * config.warp_n + plan.lane_column(thread.lane)
    )
    starts = T.alloc_local((2,), "int32")
    inside = T.alloc_local((2,), "int32")
    for i in T.unroll(config.WARP_ROW_TILES):
        for half in T.unroll(2):
            in_block = T.meta_var(thread.warp_row * config.warp_m + i * 16 + half * 8)
            row: T.int32 = place.row + in_block + thread.lane // 4
            inside[half] = T.if_then_else(row < work.m, 1, 0)
            starts[half] = places[0] + T.min(row, work.m - 1) * places[1]
        if plan.epilogue.residual_words > 0:
            load_residuals(plan, arrays, starts, inside, column)
        store_rows(
            plan, smem, accumulator, arrays, i * config.WARP_COL_TILES * 4, starts, inside, column
        )
