"""Copies of a stage of a batched product, from global to shared memory.

cp.async fills with zeros what lies beyond the reduction and the columns. Without it, as on sm_75
and where rows start at odd multiples of 1 or 2 bytes, a copy waits in registers until its stage is
free. There, a unit of 16 bytes at any address is shifted out of the five words that hold it.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.mma_sync.config import UNIT_BYTES

# words: a unit; at: its byte of the array; left: bytes of the row from there on, 0 beyond it.
_READ_ALIGNED = r"""
__device__ __forceinline__ void read_unit_@(unsigned* words, const unsigned char* array, int at,
                                            int left) {
  #pragma unroll
  for (int i = 0; i < 16 / PIECE; ++i) {
    VECTOR piece = {};
    if (i * PIECE < left) piece = reinterpret_cast<const VECTOR*>(array + at)[i];
    memcpy(words + i * (PIECE / 4), &piece, PIECE);
  }
}
"""
# Five aligned words around the unit, without a branch, so that all units of a thread are on their
# way together; any others where they reach beyond the array.
_READ_AROUND = r"""
__device__ __forceinline__ void read_unit_@(unsigned* words, const unsigned char* array, int at,
                                            int left) {
  const bool there = left > 0 && (at & ~3) + 20 <= BYTES;
  const unsigned* from = reinterpret_cast<const unsigned*>(array + (there ? at & ~3 : 0));
  #pragma unroll
  for (int i = 0; i < 5; ++i) words[i] = 4 * i + 4 <= BYTES ? from[i] : 0u;
}
"""
_SHIFT = r"""
__device__ __forceinline__ void shift_unit_@(unsigned* words, const unsigned char* array, int at,
                                             int left) {
  #pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = __funnelshift_r(words[i], words[i + 1], 8 * (at & 3));
  if (left > 0 && (at & ~3) + 20 > BYTES) {
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = 0;
      for (int b = 0; b < 4; ++b)
        if (4 * i + b < left) words[i] |= (unsigned)array[at + 4 * i + b] << 8 * b;
    }
  }
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int rest = left - 4 * i;
    words[i] = rest >= 4 ? words[i] : rest > 0 ? words[i] & ((1u << 8 * rest) - 1u) : 0u;
  }
}
"""
_VECTORS = {4: "unsigned", 8: "uint2", 16: "uint4"}


def read_unit(alignment: int, array_bytes: int) -> DeviceFunction:
    """read_unit(words, array, at, left): 16 bytes of a row, zeros beyond its end.

    Of rows that start at odd words the five words around them, which `shift_unit` makes these of.
    """
    if alignment not in _VECTORS:
        return device_function("read_unit", _READ_AROUND.replace("BYTES", str(array_bytes)))
    source = _READ_ALIGNED.replace("VECTOR", _VECTORS[alignment])
    return device_function("read_unit", source.replace("PIECE", str(alignment)))


def shift_unit(array_bytes: int) -> DeviceFunction:
    """shift_unit(words, array, at, left): the first four of the words are the unit's."""
    return device_function("shift_unit", _SHIFT.replace("BYTES", str(array_bytes)))


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


@T.meta_class
class CopyPlace:
    """Where a copy reads: its byte of the array, whether inside, and bytes of the row left."""

    def __init__(self, plan, source, operand, step, index):
        tile_row, tile_byte = operand.place(index)
        if operand.along_k:
            row = T.min(source.first + tile_row, operand.most_rows - 1)
            byte = step * plan.config.block_k + tile_byte
            self.inside = byte < operand.most_bytes
        else:
            row, byte = step * plan.step_k + tile_row, source.first + tile_byte
            self.inside = T.And(row < operand.most_rows, byte < operand.most_bytes)
        self.at = T.if_then_else(self.inside, source.start + row * operand.pitch + byte, 0)
        self.left = T.if_then_else(self.inside, operand.most_bytes - byte, 0)


@T.inline
def fetch_operand(plan, smem, source, operand, step, stage, thread):
    """A thread's copies of one operand for a step; rows beyond the last one are the last again."""
    for i in T.unroll(operand.rounds(plan.config.threads)):
        index = T.meta_var(i * plan.config.threads + thread.index)
        if index < operand.copies:
            place = T.meta_var(CopyPlace(plan, source, operand, step, index))
            at: T.int32 = place.at
            if operand.asynchronous:
                piece = T.meta_var(operand.piece)
                T.ptx[copy_piece(piece)](
                    smem.ptr_to([stage * plan.stage_bytes + operand.target(index)]),
                    source.array.ptr_to([at]),
                    piece,
                    T.if_then_else(place.inside, T.uint32(piece), T.uint32(0)),
                )
            else:
                read = T.meta_var(read_unit(operand.alignment, operand.array_bytes))
                T.cuda.func_call(
                    read.name,
                    source.held.ptr_to([operand.unit_words * i]),
                    source.array.ptr_to([0]),
                    at,
                    place.left,
                    source_code=read.source,
                )


@T.inline
def keep_operand(plan, smem, source, operand, step, thread):
    """What waits in registers for a step, if there is one, to its stage."""
    stage = T.meta_var(step % plan.config.stages * plan.stage_bytes)
    if not operand.asynchronous:
        for i in T.unroll(operand.rounds(plan.config.threads)):
            index = T.meta_var(i * plan.config.threads + thread.index)
            first = T.meta_var(operand.unit_words * i)
            if T.And(index < operand.copies, step < plan.steps):
                if operand.shifts:
                    place = T.meta_var(CopyPlace(plan, source, operand, step, index))
                    shift = T.meta_var(shift_unit(operand.array_bytes))
                    T.cuda.func_call(
                        shift.name,
                        source.held.ptr_to([first]),
                        source.array.ptr_to([0]),
                        place.at,
                        place.left,
                        source_code=shift.source,
                    )
                T.ptx["st.shared.v4.b32"](
                    smem.ptr_to([stage + operand.target(index)]),
                    *[source.held[first + j] for j in range(4)],
                )
