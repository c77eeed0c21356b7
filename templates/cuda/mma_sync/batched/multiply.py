"""The products of one stage of a batched product, and its accumulators in the order of columns."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import device_function
from autoq.templates.cuda.mma_sync.batched.verbatim import read_rows
from autoq.templates.cuda.mma_sync.batched.zero_points import add_fragments
from autoq.templates.cuda.mma_sync.multiply import (
    multiply_fragments,
    read_pixels,
    read_weights,
)

_LDMATRIX_TRANS = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"

# Words of pairs of columns by two k become words of four k: even columns, then odd ones.
_TURN = r"""
__device__ __forceinline__ void turn_bytes_@(unsigned* words) {
  const unsigned a = words[0], b = words[1], c = words[2], d = words[3];
  words[0] = __byte_perm(a, b, 0x6420);
  words[1] = __byte_perm(c, d, 0x6420);
  words[2] = __byte_perm(a, b, 0x7531);
  words[3] = __byte_perm(c, d, 0x7531);
}
"""
TURN = device_function("turn_bytes", _TURN)

# Accumulators of two column tiles of 8: of four neighbouring columns, even lanes keep those of the
# first tile and odd lanes those of the second.
_EXCHANGE = r"""
__device__ __forceinline__ void exchange_@(unsigned* acc, int lane) {
  #pragma unroll
  for (int e = 0; e < 4; ++e) {
    const bool odd = lane & 1;
    const unsigned other = __shfl_xor_sync(0xffffffffu, odd ? acc[e] : acc[4 + e], 1);
    if (odd) acc[e] = other; else acc[4 + e] = other;
  }
}
"""
EXCHANGE = device_function("exchange", _EXCHANGE)

# Accumulators of even columns, then of odd ones.
_INTERLEAVE = r"""
__device__ __forceinline__ void interleave_@(unsigned* acc) {
  #pragma unroll
  for (int row = 0; row < 4; row += 2) {
    const unsigned second = acc[row + 1];
    acc[row + 1] = acc[4 + row];
    acc[4 + row] = second;
  }
}
"""
INTERLEAVE = device_function("interleave", _INTERLEAVE)


@T.meta_class
class StepOfK:
    """A step of the reduction, and the stage that holds it.

    rows: of x where they lie as in memory; last: whether it is known to be the last one, of which
    k-tiles beyond the reduction are left out; overhangs: whether its last one reaches beyond.
    """

    def __init__(self, plan, step, rows, last=False):
        self.step = step
        self.stage = step % plan.config.stages
        self.rows = rows
        self.overhangs = last and plan.overhangs
        self.tiles = plan.tail_tiles if last else plan.config.CHUNK


@T.inline
def read_turned(plan, smem, fragments, base, k_tile, buffer, thread):
    """A warp's fragments of other, whose rows are values of k."""
    config = T.meta_var(plan.config)
    for i in T.unroll(config.WARP_COL_TILES // 2):
        column = T.meta_var(thread.warp_column * config.warp_n + i * 16)
        at = T.meta_var(plan.other.matrix(thread.lane, k_tile, column))
        first = T.meta_var((buffer * config.WARP_COL_TILES + i * 2) * 2)
        T.ptx[_LDMATRIX_TRANS](
            *[fragments.b[first + j] for j in range(4)], smem.ptr_to([base + at])
        )
        if plan.size == 1:
            T.cuda.func_call(TURN.name, fragments.b.ptr_to([first]), source_code=TURN.source)


@T.inline
def read_operands(plan, smem, fragments, part, k_tile, buffer, thread):
    """A warp's fragments of one 32-byte k-tile into one of two register buffers."""
    base = T.meta_var(part.stage * plan.stage_bytes)
    if plan.config.verbatim:
        if part.overhangs:
            if k_tile == part.tiles - 1:
                read_rows(plan, smem, fragments, part, k_tile, buffer, thread, True)
            else:
                read_rows(plan, smem, fragments, part, k_tile, buffer, thread, False)
        else:
            read_rows(plan, smem, fragments, part, k_tile, buffer, thread, False)
    else:
        read_pixels(plan, smem, fragments, base, k_tile, buffer, thread)
    if plan.turned:
        read_turned(plan, smem, fragments, base, k_tile, buffer, thread)
    else:
        read_weights(plan, smem, fragments, base, k_tile, buffer, thread)


@T.inline
def multiply_stage(plan, smem, accumulator, fragments, sums, part, thread):
    """All k-tiles of a step; the next one's fragments are read while one multiplies."""
    read_operands(plan, smem, fragments, part, 0, 0, thread)
    for k in T.unroll(part.tiles):
        if k + 1 < part.tiles:
            read_operands(plan, smem, fragments, part, k + 1, (k + 1) % 2, thread)
        multiply_fragments(plan, accumulator, fragments, k % 2)
        if not plan.workload.floating:
            add_fragments(plan, fragments, sums, k % 2)


@T.inline
def order_columns(plan, accumulator, thread):
    """Accumulators of turned fragments: four neighbouring columns of each pair of column tiles."""
    if plan.turned:
        for pair in T.unroll(plan.config.WARP_ROW_TILES * plan.config.WARP_COL_TILES // 2):
            if plan.workload.floating:
                T.cuda.func_call(
                    EXCHANGE.name, accumulator.ptr_to([8 * pair]), thread.lane,
                    source_code=EXCHANGE.source,
                )  # fmt: skip
            else:
                T.cuda.func_call(
                    INTERLEAVE.name, accumulator.ptr_to([8 * pair]), source_code=INTERLEAVE.source
                )
