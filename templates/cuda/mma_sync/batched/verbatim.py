"""Rows of x that lie in shared memory as they do in memory, one behind the other from any byte on.

cp.async brings them in whole aligned units, all of the reduction at once, wherever rows start. A
thread then shifts each word of its fragments out of the two that hold it. Where rows of other are
values of k, they lie in an order in which its two words of a row are neighbours, so that three
loads hold both.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.mma_sync.batched.copies import copy_piece
from autoq.templates.cuda.mma_sync.config import K_TILE_BYTES, UNIT_BYTES

_MOST_UNROLLED = 16
"""Copies of a thread that are written out."""

# a: the fragment of 16 rows by 32 bytes; upper, lower: where the thread's two rows begin, at the
# byte of its first word; byte: of k, whole words; left: bytes of a row from the first word on.
_READ = r"""
__device__ __forceinline__ void read_verbatim_@(unsigned* a, const unsigned char* rows, int upper,
                                                int lower, int byte, int left) {
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = i % 2 ? lower : upper;
    const unsigned* words =
        reinterpret_cast<const unsigned*>(rows + (row & ~3) + byte + i / 2 * SECOND);
    a[i] = __funnelshift_r(words[0], words[1], 8 * (row & 3));
    TAIL
  }
}
"""
_TAIL = r"""const int rest = left - i / 2 * SECOND;
    a[i] = rest >= 4 ? a[i] : rest > 0 ? a[i] & ((1u << 8 * rest) - 1u) : 0u;"""


def read_verbatim(tail: bool, second: int) -> DeviceFunction:
    """read_verbatim(a, rows, upper, lower, byte, left): a fragment; zeros beyond rows in a tail.

    second: bytes of k from a thread's first word to its second one.
    """
    source = _READ.replace("TAIL", _TAIL if tail else "").replace("SECOND", str(second))
    return device_function("read_verbatim", source)


@T.meta_class
class VerbatimRows:
    """A block's rows of x.

    start: the byte of x where the pair's matrix begins; first: the block's first row; begins: where
    a thread's two rows of each row tile begin, behind the block's first unit.
    """

    def __init__(self, x, start, first, begins):
        self.x = x
        self.start = start
        self.first = first
        self.begins = begins

    def byte(self, plan):
        """The byte of x where the block's rows begin."""
        return self.start + self.first * plan.x.pitch


@T.inline
def copy_unit(plan, smem, rows, skew, index):
    """One unit of a block's rows; x has whole ones alone."""
    first = T.meta_var(rows.byte(plan) - skew)
    length = T.meta_var(T.min(plan.config.block_m, plan.workload.m - rows.first) * plan.x.pitch)
    if index * UNIT_BYTES < skew + length:
        at = T.meta_var(first + index * UNIT_BYTES)
        T.ptx[copy_piece(UNIT_BYTES)](
            smem.ptr_to([plan.rows_at + index * UNIT_BYTES]),
            rows.x.ptr_to([at]),
            UNIT_BYTES,
            T.uint32(UNIT_BYTES),
        )


@T.inline
def fetch_rows(plan, smem, rows, thread):
    """A thread's units of all rows, and where its fragments lie in them."""
    skew: T.int32 = rows.byte(plan) % UNIT_BYTES
    rounds = T.meta_var(-(-(plan.rows_bytes // UNIT_BYTES) // plan.config.threads))
    if rounds <= _MOST_UNROLLED:
        for i in T.unroll(rounds):
            copy_unit(plan, smem, rows, skew, i * plan.config.threads + thread.index)
    else:
        for i in T.serial(rounds, unroll=False):
            copy_unit(plan, smem, rows, skew, i * plan.config.threads + thread.index)
    for i in T.unroll(2 * plan.config.WARP_ROW_TILES):
        row = T.meta_var(
            thread.warp_row * plan.config.warp_m + i // 2 * 16 + i % 2 * 8 + thread.lane // 4
        )
        rows.begins[i] = skew + row * plan.x.pitch + thread.lane % 4 * plan.fragment_bytes[0]


@T.inline
def read_rows(plan, smem, fragments, part, k_tile, buffer, thread, tail):
    """A warp's fragments of one 32-byte k-tile of a step; tail: one that reaches beyond rows."""
    byte = T.meta_var(part.step * plan.config.block_k + k_tile * K_TILE_BYTES)
    apart = T.meta_var(plan.fragment_bytes[0])
    read = T.meta_var(read_verbatim(tail, plan.fragment_bytes[1]))
    for i in T.unroll(plan.config.WARP_ROW_TILES):
        T.cuda.func_call(
            read.name,
            fragments.a.ptr_to([(buffer * plan.config.WARP_ROW_TILES + i) * 4]),
            smem.ptr_to([plan.rows_at]),
            part.rows.begins[2 * i],
            part.rows.begins[2 * i + 1],
            byte,
            plan.x.most_bytes - byte - thread.lane % 4 * apart,
            source_code=read.source,
        )
