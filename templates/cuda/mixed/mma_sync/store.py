"""The end of a tile: sums become results, gather in shared memory, and go to y row by row."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.mixed.finish import finish_source
from autoq.templates.cuda.mixed.mma_sync.config import COLUMN_TILE
from autoq.templates.cuda.mixed.pair import pair_source
from autoq.templates.operators.float_gemm import FloatGemm

_MOVE = r"""
__device__ __forceinline__ void move_@(void* to, const void* from) {
  *static_cast<VECTOR*>(to) = *static_cast<const VECTOR*>(from);
}
"""
_FINISH_PAIR = r"""
__device__ __forceinline__ unsigned finish_pair_@(float left, float right, float scale,
                                                 float bias) {
  return pair_@(finish_@(left, scale, bias), finish_@(right, scale, bias));
}
"""
_VECTORS = {2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}
TRANSPOSE = "movmatrix.sync.aligned.m8n8.trans.b16"


def finish_pair(workload: FloatGemm) -> DeviceFunction:
    """finish_pair(left, right, scale, bias): two results of one weight row as a word."""
    source = finish_source(workload) + pair_source(workload.out_dtype) + _FINISH_PAIR
    return device_function("finish_pair", source)


def move(piece: int) -> DeviceFunction:
    """move(to, from): `piece` bytes, aligned to as many."""
    return device_function("move", _MOVE.replace("VECTOR", _VECTORS[piece]))


@T.meta_class
class RowConstants:
    """A thread's registers of scale and bias, two rows of each row tile; word: of two results."""

    def __init__(self, scale, bias, word):
        self.scale = scale
        self.bias = bias
        self.word = word


@T.inline
def load_rows(plan, constants, scale, bias, n, thread):
    """Scale and bias of a thread's weight rows; an array that is absent may be any other."""
    for tile in T.unroll(plan.config.row_tiles):
        for half in T.unroll(2):
            row = T.meta_var(
                n * plan.config.block_n + plan.first_row(thread, tile) + thread.lane // 4 + 8 * half
            )
            constants.scale[2 * tile + half] = scale[row] if plan.converts else T.float32(1)
            constants.bias[2 * tile + half] = bias[row] if plan.workload.bias else T.float32(0)


@T.inline
def stage_pair(plan, smem, sums, constants, tile, column, half, thread):
    """Two 16-bit results of a weight row; with rows of x as y's rows a quad's matrix is turned."""
    at = T.meta_var((tile * plan.config.column_tiles + column) * 4 + 2 * half)
    row = T.meta_var(plan.first_row(thread, tile) + 8 * half)
    x_row = T.meta_var((thread.warp_m * plan.config.column_tiles + column) * COLUMN_TILE)
    constants.word[0] = T.cuda.func_call(
        plan.finish.name,
        sums[at],
        sums[at + 1],
        constants.scale[2 * tile + half],
        constants.bias[2 * tile + half],
        source_code=plan.finish.source,
        return_type="uint32",
    )
    if plan.workload.weight_left:
        place = T.meta_var(
            (row + thread.lane // 4) * plan.result_pitch + (x_row + thread.lane % 4 * 2) * 2
        )
        T.ptx["st.shared.b32"](smem.ptr_to([place]), constants.word[0])
    else:
        T.ptx[TRANSPOSE](constants.word[1], constants.word[0])
        place = T.meta_var(
            (x_row + thread.lane // 4) * plan.result_pitch + (row + thread.lane % 4 * 2) * 2
        )
        T.ptx["st.shared.b32"](smem.ptr_to([place]), constants.word[1])


@T.inline
def stage_floats(plan, smem, sums, constants, tile, column, half, thread):
    """Two float32 results of a weight row, or two sums."""
    at = T.meta_var((tile * plan.config.column_tiles + column) * 4 + 2 * half)
    row = T.meta_var(plan.first_row(thread, tile) + 8 * half + thread.lane // 4)
    x_row = T.meta_var(
        (thread.warp_m * plan.config.column_tiles + column) * COLUMN_TILE + thread.lane % 4 * 2
    )
    if plan.finishes:
        for e in T.unroll(2):
            sums[at + e] = T.cuda.func_call(
                plan.finish.name,
                sums[at + e],
                constants.scale[2 * tile + half],
                constants.bias[2 * tile + half],
                source_code=plan.finish.source,
                return_type="float32",
            )
    if plan.workload.weight_left:
        place = T.meta_var(row * plan.result_pitch + x_row * 4)
        T.ptx["st.shared.v2.f32"](smem.ptr_to([place]), sums[at], sums[at + 1])
    else:
        for e in T.unroll(2):
            place = T.meta_var((x_row + e) * plan.result_pitch + row * 4)
            T.ptx["st.shared.f32"](smem.ptr_to([place]), sums[at + e])


@T.inline
def stage_tile(plan, smem, sums, constants, thread):
    """All results of a warp to shared memory."""
    for tile in T.unroll(plan.config.row_tiles):
        for column in T.unroll(plan.config.column_tiles):
            for half in T.unroll(2):
                if plan.result.bytes == 2:
                    stage_pair(plan, smem, sums, constants, tile, column, half, thread)
                else:
                    stage_floats(plan, smem, sums, constants, tile, column, half, thread)


@T.inline
def copy_tile(plan, smem, y, place, split, thread):
    """The block's results to y, as far as they lie inside; y: flat."""
    rows, columns = T.meta_var(plan.workload.y_shape)
    per_row = T.meta_var(plan.result_shape[1] * plan.result.bytes // plan.result_piece)
    values = T.meta_var(plan.result_piece // plan.result.bytes)
    left = T.meta_var(plan.workload.weight_left)
    first_row = T.meta_var((place.n if left else place.m) * plan.result_shape[0])
    first_column = T.meta_var((place.m if left else place.n) * plan.result_shape[1])
    for i in T.serial(plan.result_rounds, unroll=False):
        index: T.int32 = i * plan.config.threads + thread.index
        within: T.int32 = index // per_row
        row: T.int32 = first_row + within
        column: T.int32 = first_column + index % per_row * values
        if (index < plan.result_copies) & (row < rows) & (column < columns):
            T.cuda.func_call(
                plan.move.name,
                y.ptr_to([(split * rows + row) * columns + column]),
                smem.ptr_to([within * plan.result_pitch + index % per_row * plan.result_piece]),
                source_code=plan.move.source,
            )
