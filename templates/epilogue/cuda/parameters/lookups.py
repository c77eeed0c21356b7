"""The table of an epilogue in shared memory, which each warp that reads it has filled itself.

Random bytes of its 256 meet in two words of a bank at most; a load from the L1 takes twice as long.
"""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from autoq.templates.arrays.table import ENTRIES
from autoq.templates.cuda.device.functions import device_function
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.parameters.scalars import TABLE_BYTE
from autoq.templates.epilogue.cuda.short_forms.words import WORDS

_FILL = r"""
__device__ __forceinline__ void fill_table_@(void* table, const void* scalars, int lane) {
  reinterpret_cast<uint2*>(table)[lane] =
      __ldg(reinterpret_cast<const uint2*>(scalars) + FIRST + lane);
  __syncwarp();
}
"""
_FUNCTION = device_function("fill_table", _FILL.replace("FIRST", str(TABLE_BYTE // 8)))

LONG_ENTRIES = 4096
"""Entries of the table of `Form.READ`: what a sum may select before it is clamped."""
_LONG_FILL = r"""
__device__ __forceinline__ void fill_long_table_@(void* table, const void* scalars, int lane) {
  const int at = lane < 16 ? FIRST + lane : SECOND + lane;
  const uint4 v = __ldg(reinterpret_cast<const uint4*>(scalars) + at);
  uint4* words = reinterpret_cast<uint4*>(table);
  words[lane] = v;
  const unsigned last = __byte_perm(__shfl_sync(0xffffffffu, v.w, 31), 0, 0x3333);
  #pragma unroll
  for (int i = 1; i < PARTS; ++i) words[32 * i + lane] = make_uint4(last, last, last, last);
  __syncwarp();
}
"""
LONG_FILL = device_function(
    "fill_long_table",
    _LONG_FILL.replace("FIRST", str(TABLE_BYTE // 16))
    .replace("SECOND", str((TABLE_BYTE + ENTRIES + 4 * WORDS) // 16 - 16))
    .replace("PARTS", str(LONG_ENTRIES // 512)),
)


def long_table_bytes(epilogue: Epilogue) -> int:
    """Shared memory of the long table."""
    return LONG_ENTRIES if epilogue.table else 0


@T.inline
def fill_long_table(plan, smem, scalars, lane):
    """By each warp, before its first lookup: all of them write the same bytes."""
    T.cuda.func_call(
        LONG_FILL.name,
        smem.ptr_to([plan.lookups_at]),
        scalars.ptr_to([0]),
        lane,
        source_code=LONG_FILL.source,
    )


def table_bytes(epilogue: Epilogue) -> int:
    """Shared memory of an epilogue's table."""
    return ENTRIES if epilogue.table else 0


def table_argument(plan: Any, smem: Any) -> list[Any]:
    """The last argument of a requantising function, where its epilogue has a table.

    plan: has the `workload`, and `lookups_at`, the byte of shared memory where the table begins.
    """
    return [smem.ptr_to([plan.lookups_at])] if plan.workload.epilogue.table else []


@T.inline
def fill_table(plan, smem, scalars, lane):
    """By each warp, before its first lookup: all of them write the same bytes."""
    T.cuda.func_call(
        _FUNCTION.name,
        smem.ptr_to([plan.lookups_at]),
        scalars.ptr_to([0]),
        lane,
        source_code=_FUNCTION.source,
    )
