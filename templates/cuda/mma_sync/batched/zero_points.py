"""What zero points add to the sums of a batched product of bytes.

A sum of (x - x_zero) * (other - other_zero) is that of x * other, less other_zero times the sum of
a row of x and x_zero times that of a column of other, plus k * x_zero * other_zero. Threads add up
the bytes of the fragments that they multiply, while tensor cores are busy; sums whose factor is 0
are left out.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import DeviceFunction, device_function

_ADD = r"""
__device__ __forceinline__ int add_bytes_@(unsigned word, int sum) {
  int result;
  asm("dp4a.TYPE.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(word), "r"(0x01010101u), "r"(sum));
  return result;
}
"""
# Of the four lanes of a row.
_WHOLE = r"""
__device__ __forceinline__ int whole_@(int sum) {
  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  return sum + __shfl_xor_sync(0xffffffffu, sum, 2);
}
"""
# The sum of the column that a lane of another row has.
_OF_COLUMN = r"""
__device__ __forceinline__ int of_column_@(int sum, int column) {
  return __shfl_sync(0xffffffffu, sum, 4 * column);
}
"""
WHOLE = device_function("whole", _WHOLE)
OF_COLUMN = device_function("of_column", _OF_COLUMN)


def add_bytes(dtype: str) -> DeviceFunction:
    """add_bytes(word, sum): a sum and the four bytes of a word."""
    return device_function("add_bytes", _ADD.replace("TYPE", "s32" if dtype == "int8" else "u32"))


@T.meta_class
class ByteSums:
    """A thread's sums of bytes, and the zero points.

    rows: of two rows of each row tile; columns: of a column of each column tile; x_zero,
    other_zero: the zero points.
    """

    def __init__(self, rows, columns, x_zero, other_zero):
        self.rows = rows
        self.columns = columns
        self.x_zero = x_zero
        self.other_zero = other_zero


@T.inline
def add_fragments(plan, fragments, sums, buffer):
    """The bytes of one of two buffers of fragments to the sums that are needed."""
    config = T.meta_var(plan.config)
    of_x = T.meta_var(add_bytes(plan.workload.in_dtype))
    of_other = T.meta_var(add_bytes(plan.workload.other_dtype))
    if sums.other_zero != 0:
        for i in T.unroll(config.WARP_ROW_TILES):
            for e in T.unroll(4):
                word = T.meta_var(fragments.a[(buffer * config.WARP_ROW_TILES + i) * 4 + e])
                sums.rows[2 * i + e % 2] = T.cuda.func_call(
                    of_x.name, word, sums.rows[2 * i + e % 2],
                    source_code=of_x.source, return_type="int32",
                )  # fmt: skip
    if sums.x_zero != 0:
        for j in T.unroll(config.WARP_COL_TILES):
            for e in T.unroll(2):
                word = T.meta_var(fragments.b[(buffer * config.WARP_COL_TILES + j) * 2 + e])
                sums.columns[j] = T.cuda.func_call(
                    of_other.name, word, sums.columns[j],
                    source_code=of_other.source, return_type="int32",
                )  # fmt: skip


@T.inline
def take_off(plan, accumulator, sums, thread):
    """Take the zero points off the accumulators."""
    config = T.meta_var(plan.config)
    if sums.other_zero != 0:
        both = T.meta_var(plan.workload.k * sums.x_zero)
        for i in T.unroll(2 * config.WARP_ROW_TILES):
            row = T.meta_var(
                T.cuda.func_call(
                    WHOLE.name, sums.rows[i], source_code=WHOLE.source, return_type="int32"
                )
            )
            sums.rows[i] = sums.other_zero * (both - row)
        for i in T.unroll(config.WARP_ROW_TILES):
            for j in T.unroll(config.WARP_COL_TILES):
                for e in T.unroll(4):
                    at = T.meta_var((i * config.WARP_COL_TILES + j) * 4 + e)
                    accumulator[at] = accumulator[at] + T.reinterpret(
                        "uint32", sums.rows[2 * i + e // 2]
                    )
    if sums.x_zero != 0:
        column = T.alloc_local((2,), "int32")
        for j in T.unroll(config.WARP_COL_TILES):
            sums.columns[j] = T.cuda.func_call(
                WHOLE.name, sums.columns[j], source_code=WHOLE.source, return_type="int32"
            )
            for e in T.unroll(2):
                column[e] = -sums.x_zero * T.cuda.func_call(
                    OF_COLUMN.name, sums.columns[j], thread.lane % 4 * 2 + e,
                    source_code=OF_COLUMN.source, return_type="int32",
                )  # fmt: skip
            for i in T.unroll(config.WARP_ROW_TILES):
                for e in T.unroll(4):
                    at = T.meta_var((i * config.WARP_COL_TILES + j) * 4 + e)
                    accumulator[at] = accumulator[at] + T.reinterpret("uint32", column[e % 2])
