"""Copies of a stage of a batched product, from global to shared memory.

cp.async fills with zeros what lies beyond the reduction and the columns. Without it, as on sm_75
and where rows start at odd multiples of 1 or 2 bytes, a copy waits in registers until its stage is
free. There, a unit of 16 bytes at any address is shifted out of the five words that hold it.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.mma_sync.config import UNIT_BYTES

# words: a unit; left: bytes of the row from there on, 0 or less beyond it.
_READ_ALIGNED = r"""
__device__ __forceinline__ void read_unit_@(unsigned* words, const unsigned char* from, int left,
                                            int room) {
  #pragma unroll
  for (int i = 0; i < 16 / PIECE; ++i) {
    VECTOR piece = {};
    if (i * PIECE < left) piece = reinterpret_cast<const VECTOR*>(from)[i];
    memcpy(words + i * (PIECE / 4), &piece, PIECE);
  }
}
"""
# room: bytes of the array from there on. Aligned words that hold a byte of the unit lie inside the
# array, which is aligned, but for its last bytes where these are no whole word.
_READ_SHIFTED = r"""
__device__ __forceinline__ void read_unit_@(unsigned* words, const unsigned char* from, int left,
                                            int room) {
  const int skew = (int)((size_t)from & 3u);
  const unsigned char* aligned = from - skew;
  unsigned whole[5];
  #pragma unroll
  for (int i = 0; i < 5; ++i) {
    whole[i] = 0;
    if (4 * i < left + skew) {
      if (4 * i + 4 <= room + skew) {
        whole[i] = reinterpret_cast<const unsigned*>(aligned)[i];
      } else {
        for (int b = 0; b < 3; ++b)
          if (4 * i + b < room + skew) whole[i] |= (unsigned)aligned[4 * i + b] << 8 * b;
      }
    }
  }
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int rest = left - 4 * i;
    const unsigned word = __funnelshift_r(whole[i], whole[i + 1], 8 * skew);
    words[i] = rest >= 4 ? word : rest > 0 ? word & ((1u << 8 * rest) - 1u) : 0u;
  }
}
"""
_VECTORS = {4: "unsigned", 8: "uint2", 16: "uint4"}


def read_unit(alignment: int) -> DeviceFunction:
    """read_unit(words, from, left, room): 16 bytes of a row, zeros beyond its end."""
    if alignment not in _VECTORS:
        return device_function("read_unit", _READ_SHIFTED)
    source = _READ_ALIGNED.replace("VECTOR", _VECTORS[alignment])
    return device_function("read_unit", source.replace("PIECE", str(alignment)))


def copy_piece(piece: int) -> str:
    """cp.async of a piece; only 16 bytes may pass the L1 by."""
    return f"cp.async.{'cg' if piece == UNIT_BYTES else 'ca'}.shared.global.L2::128B"


@T.meta_class
class Source:
    """What a thread's copies of one operand read.

    array: its bytes; start: the byte where the pair's matrix begins; first: the block's first row,
    or its first column's byte where rows are values of k; held: registers of what waits.
    """

    def __init__(self, array, start, first, held):
        self.array = array
        self.start = start
        self.first = first
        self.held = held


@T.inline
def fetch_operand(plan, smem, source, operand, step, stage, thread):
    """A thread's copies of one operand for a step; rows beyond the last one are the last again."""
    for i in T.unroll(operand.rounds(plan.config.threads)):
        index = T.meta_var(i * plan.config.threads + thread.index)
        if index < operand.copies:
            place = T.meta_var(operand.place(index))
            row: T.int32 = (
                T.min(source.first + place[0], operand.most_rows - 1)
                if operand.along_k
                else step * plan.step_k + place[0]
            )
            byte: T.int32 = (
                step * plan.config.block_k if operand.along_k else source.first
            ) + place[1]
            there = T.meta_var(
                byte < operand.most_bytes
                if operand.along_k
                else T.And(row < operand.most_rows, byte < operand.most_bytes)
            )
            inside: T.let = there
            at: T.int32 = T.if_then_else(inside, source.start + row * operand.pitch + byte, 0)
            if operand.asynchronous:
                piece = T.meta_var(operand.piece)
                T.ptx[copy_piece(piece)](
                    smem.ptr_to([stage * plan.stage_bytes + operand.target(index)]),
                    source.array.ptr_to([at]),
                    piece,
                    T.if_then_else(inside, T.uint32(piece), T.uint32(0)),
                )
            else:
                read = T.meta_var(read_unit(operand.alignment))
                T.cuda.func_call(
                    read.name,
                    source.held.ptr_to([4 * i]),
                    source.array.ptr_to([at]),
                    T.if_then_else(inside, operand.most_bytes - byte, 0),
                    operand.array_bytes - at,
                    source_code=read.source,
                )


@T.inline
def keep_operand(plan, smem, source, operand, step, thread):
    """What waits in registers for a step, if there is one, to its stage."""
    stage = T.meta_var(step % plan.config.stages * plan.stage_bytes)
    if not operand.asynchronous:
        for i in T.unroll(operand.rounds(plan.config.threads)):
            index = T.meta_var(i * plan.config.threads + thread.index)
            if T.And(index < operand.copies, step < plan.steps):
                T.ptx["st.shared.v4.b32"](
                    smem.ptr_to([stage + operand.target(index)]),
                    *[source.held[4 * i + j] for j in range(4)],
                )
