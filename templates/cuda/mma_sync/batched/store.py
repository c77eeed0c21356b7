"""The end of a tile of a batched product: accumulators to rows of y."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.epilogue.cuda.parameters.lookups import table_argument

# y, from: a row of a tile in memory and in shared memory, as bytes; left: its length in bytes.
_STORE_ALIGNED = r"""
__device__ __forceinline__ void store_row_@(unsigned char* y, const unsigned char* from, int piece,
                                            int left) {
  if (piece * PIECE < left)
    reinterpret_cast<VECTOR*>(y)[piece] = reinterpret_cast<const VECTOR*>(from)[piece];
}
"""
# Of words of y: those at both ends are stored byte by byte as far as they belong to the row.
_STORE_SHIFTED = r"""
__device__ __forceinline__ void store_row_@(unsigned char* y, const unsigned char* from, int piece,
                                            int left) {
  const int first = 4 * piece - (int)((size_t)y & 3u);
  if (first >= 0 && first + 4 <= left) {
    const unsigned* words = reinterpret_cast<const unsigned*>(from) + first / 4;
    *reinterpret_cast<unsigned*>(y + first) =
        __funnelshift_r(words[0], words[1], 8 * (first & 3));
  } else {
    #pragma unroll
    for (int b = 0; b < 4; ++b)
      if (first + b >= 0 && first + b < left) y[first + b] = from[first + b];
  }
}
"""
# y: where a run of whole rows of ROW bytes begins, which lie PITCH bytes apart in shared memory;
# left: its length. A warp's 32 words are 128 aligned bytes, so that sectors are written whole.
_STORE_RUN = r"""
__device__ __forceinline__ void store_run_@(unsigned char* y, const unsigned char* from, int piece,
                                            int left) {
  const int first = 4 * piece - (int)((size_t)y & 127u);
  if (first <= -4 || first >= left) return;
  const int row = max(first, 0) / ROW, column = first - row * ROW;
  if (first >= 0 && first + 4 <= left && column + 4 <= ROW) {
    const unsigned* words = reinterpret_cast<const unsigned*>(from + row * PITCH) + column / 4;
    *reinterpret_cast<unsigned*>(y + first) =
        __funnelshift_r(words[0], words[1], 8 * (column & 3));
  } else {
    for (int at = max(first, 0); at < min(first + 4, left); ++at)
      y[at] = from[at / ROW * PITCH + at % ROW];
  }
}
"""
_VECTORS = {4: "unsigned", 8: "uint2", 16: "uint4"}


def store_run(row_bytes: int, pitch: int) -> DeviceFunction:
    """store_run(y, from, piece, left): a word of a run of whole rows."""
    source = _STORE_RUN.replace("ROW", str(row_bytes)).replace("PITCH", str(pitch))
    return device_function("store_run", source)


def store_row(piece: int, aligned: bool) -> DeviceFunction:
    """store_row(y, from, piece, left): a piece of a row, or a word of one that starts anywhere."""
    if not aligned:
        return device_function("store_row", _STORE_SHIFTED)
    source = _STORE_ALIGNED.replace("VECTOR", _VECTORS[piece]).replace("PIECE", str(piece))
    return device_function("store_row", source)


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
def store_rows(plan, smem, accumulator, arrays, first, target, inside, column):
    """A thread's two rows of a row tile, whose accumulators begin at `first`.

    target: the array that is written, where both rows start in it, and a column's place there.
    """
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
            target.y.ptr_to([target.starts[0] + target.column + g * 4 * plan.run]),
            target.y.ptr_to([target.starts[1] + target.column + g * 4 * plan.run]),
            inside[0],
            inside[1],
            plan.workload.n - at,
            *table_argument(plan, smem),
            source_code=plan.requantise.source,
        )


@T.meta_class
class RowTarget:
    """Where two rows of a thread go: an array, its first elements of them, and their column."""

    def __init__(self, y, starts, column):
        self.y = y
        self.starts = starts
        self.column = column


@T.inline
def copy_rows(plan, smem, y_bytes, place, thread):
    """The rows of a tile from shared memory to y, as far as they lie inside."""
    work, config = T.meta_var(plan.workload), T.meta_var(plan.config)
    places = T.meta_var(work.row_places(work.y_order, place.pair))
    store = T.meta_var(store_row(plan.store_piece, plan.aligned))
    left: T.int32 = T.min(config.block_n, work.n - place.column) * plan.out_size
    count = T.meta_var(config.block_m * plan.row_stores)
    for i in T.serial(-(-count // config.threads), unroll=False):
        index: T.int32 = i * config.threads + thread.index
        within: T.int32 = index // plan.row_stores
        row: T.int32 = place.row + within
        if T.And(index < count, row < work.m):
            T.cuda.func_call(
                store.name,
                y_bytes.ptr_to([(places[0] + row * places[1] + place.column) * plan.out_size]),
                smem.ptr_to([within * plan.staged_pitch]),
                index % plan.row_stores,
                left,
                source_code=store.source,
            )


@T.inline
def copy_run(plan, smem, y_bytes, place, thread):
    """The rows of a tile from shared memory to y, where they lie one behind the other."""
    work, config = T.meta_var(plan.workload), T.meta_var(plan.config)
    store = T.meta_var(store_run(plan.row_bytes, plan.staged_pitch))
    first = T.meta_var(work.row_places(work.y_order, place.pair)[0] * plan.out_size)
    left: T.int32 = T.min(config.block_m, work.m - place.row) * plan.row_bytes
    for i in T.serial(-(-plan.run_stores // config.threads), unroll=False):
        T.cuda.func_call(
            store.name,
            y_bytes.ptr_to([first + place.row * plan.row_bytes]),
            smem.ptr_to([0]),
            i * config.threads + thread.index,
            left,
            source_code=store.source,
        )


@T.inline
def store_tile(plan, smem, staged, accumulator, arrays, place, thread):
    """Requantise and pack a warp's part of a tile, to y or to shared memory.

    staged: shared memory as elements of y; rows beyond the last one are not stored.
    """
    config = T.meta_var(plan.config)
    work = T.meta_var(plan.workload)
    places = T.meta_var(work.row_places(work.y_order, place.pair))
    in_tile = T.meta_var(thread.warp_column * config.warp_n + plan.lane_column(thread.lane))
    column: T.int32 = place.column + in_tile
    starts = T.alloc_local((2,), "int32")
    in_staged = T.alloc_local((2,), "int32")
    inside = T.alloc_local((2,), "int32")
    if config.staged:
        T.cuda.cta_sync()
    for i in T.unroll(config.WARP_ROW_TILES):
        for half in T.unroll(2):
            in_block: T.int32 = (
                thread.warp_row * config.warp_m + i * 16 + half * 8 + thread.lane // 4
            )
            row: T.int32 = place.row + in_block
            inside[half] = T.if_then_else(row < work.m, 1, 0)
            starts[half] = places[0] + T.min(row, work.m - 1) * places[1]
            in_staged[half] = in_block * (plan.staged_pitch // plan.out_size)
        if plan.epilogue.residual_words > 0:
            load_residuals(plan, arrays, starts, inside, column)
        target = T.meta_var(
            RowTarget(staged, in_staged, in_tile)
            if config.staged
            else RowTarget(arrays.y, starts, column)
        )
        first = T.meta_var(i * config.WARP_COL_TILES * 4)
        store_rows(plan, smem, accumulator, arrays, first, target, inside, column)


@T.inline
def copy_tile(plan, smem, y_bytes, place, thread):
    """A tile that `store_tile` left in shared memory goes to y."""
    T.cuda.cta_sync()
    if plan.contiguous:
        copy_run(plan, smem, y_bytes, place, thread)
    else:
        copy_rows(plan, smem, y_bytes, place, thread)
