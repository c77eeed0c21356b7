"""The end of a tile: sums become results, gather in shared memory, and go to y row by row."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.mixed.mma_sync.config import COLUMN_TILE

_MOVE = r"""
__device__ __forceinline__ void move_@(void* to, const void* from) {
  *static_cast<VECTOR*>(to) = *static_cast<const VECTOR*>(from);
}
"""
_VECTORS = {2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}
TRANSPOSE = "movmatrix.sync.aligned.m8n8.trans.b16"


def move(piece: int) -> DeviceFunction:
    """move(to, from): `piece` bytes, aligned to as many."""
    return device_function("move", _MOVE.replace("VECTOR", _VECTORS[piece]))


@T.meta_class
class SyncResults:
    """A thread's sums of a tile at a place, and what they become results with.

    inputs: of results; scale, bias: registers of two rows of each row tile; word: registers of two
    words of results.
    """

    def __init__(self, plan, sums, inputs, place, thread):
        self.plan, self.sums, self.inputs = plan, sums, inputs
        self.place, self.thread = place, thread
        rows = 2 * plan.config.row_tiles
        self.scale = T.alloc_local((rows,), "float32")
        self.bias = T.alloc_local((rows,), "float32")
        self.word = T.alloc_local((2,), "uint32")

    def row(self, tile, half):
        """A weight row of the thread in the block's tile."""
        return self.plan.first_row(self.thread, tile) + self.thread.lane // 4 + 8 * half

    def x_row(self, column):
        """The first of a thread's two rows of x of a column tile in the block's tile."""
        first = self.thread.warp_column * self.plan.config.column_tiles + column
        return first * COLUMN_TILE + self.thread.lane % 4 * 2

    def at(self, tile, column, half):
        """First of a thread's two sums of a weight row."""
        return (tile * self.plan.config.column_tiles + column) * 4 + 2 * half

    def finished(self, function, tile, column, half, pair):
        """A result, or two as a word; pair: which of the two sums."""
        plan, row = self.plan, 2 * tile + half
        at = self.at(tile, column, half)
        weight_row = self.place.n * plan.config.block_n + self.row(tile, half)
        columns = [self.place.m * plan.config.block_m + self.x_row(column) + e for e in pair]
        operands = self.inputs.operands(
            [self.sums[at + e] for e in pair],
            (self.scale[row], self.bias[row]),
            self.place.product,
            columns,
            self.inputs.residuals(self.place.product, weight_row, columns),
        )
        return T.cuda.func_call(
            function.name, *operands, source_code=function.source,
            return_type="uint32" if len(pair) == 2 else "float32",
        )  # fmt: skip

    @T.inline
    def load_rows(self, scale, bias):
        """Scale and bias of a thread's weight rows; an array that is absent may be any other."""
        for tile in T.unroll(self.plan.config.row_tiles):
            for half in T.unroll(2):
                row = T.meta_var(
                    self.place.weight_n * self.plan.config.block_n + self.row(tile, half)
                )
                self.scale[2 * tile + half] = (
                    scale[row] if self.plan.workload.scaled else T.float32(1)
                )
                self.bias[2 * tile + half] = bias[row] if self.plan.workload.bias else T.float32(0)

    @T.inline
    def stage_pair(self, smem, tile, column, half):
        """Two 16-bit results of a weight row; with rows of x as y's rows they are turned."""
        plan, lane = T.meta_var(self.plan), T.meta_var(self.thread.lane)
        self.word[0] = self.finished(plan.finishing.pair, tile, column, half, (0, 1))
        row, x_row = T.meta_var(self.row(tile, half)), T.meta_var(self.x_row(column))
        if plan.workload.weight_left:
            place = T.meta_var(row * plan.result_pitch + x_row * 2)
            T.ptx["st.shared.b32"](smem.ptr_to([place]), self.word[0])
        else:
            T.ptx[TRANSPOSE](self.word[1], self.word[0])
            first_row = T.meta_var(row - lane // 4 + lane % 4 * 2)
            turned = T.meta_var(x_row - lane % 4 * 2 + lane // 4)
            place = T.meta_var(turned * plan.result_pitch + first_row * 2)
            T.ptx["st.shared.b32"](smem.ptr_to([place]), self.word[1])

    @T.inline
    def stage_floats(self, smem, tile, column, half):
        """Two float32 results of a weight row, or two sums."""
        plan = T.meta_var(self.plan)
        at = T.meta_var(self.at(tile, column, half))
        row, x_row = T.meta_var(self.row(tile, half)), T.meta_var(self.x_row(column))
        if plan.finishes:
            for e in T.unroll(2):
                self.sums[at + e] = self.finished(plan.finishing.one, tile, column, half, (e,))
        if plan.workload.weight_left:
            place = T.meta_var(row * plan.result_pitch + x_row * 4)
            T.ptx["st.shared.v2.f32"](smem.ptr_to([place]), self.sums[at], self.sums[at + 1])
        else:
            for e in T.unroll(2):
                place = T.meta_var((x_row + e) * plan.result_pitch + row * 4)
                T.ptx["st.shared.f32"](smem.ptr_to([place]), self.sums[at + e])

    @T.inline
    def stage(self, smem):
        """All results of a warp to shared memory."""
        for tile in T.unroll(self.plan.config.row_tiles):
            for column in T.unroll(self.plan.config.column_tiles):
                for half in T.unroll(2):
                    if self.plan.result.bytes == 2:
                        self.stage_pair(smem, tile, column, half)
                    else:
                        self.stage_floats(smem, tile, column, half)


@T.inline
def copy_tile(plan, smem, y, place, thread):
    """The block's results to y, as far as they lie inside; y: flat."""
    rows, columns = T.meta_var(plan.workload.y_shape[-2:])
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
                y.ptr_to([(place.first_y + row) * columns + column]),
                smem.ptr_to([within * plan.result_pitch + index % per_row * plan.result_piece]),
                source_code=plan.move.source,
            )
