"""The table of `Form.READ`, whose index no instruction has clamped from above.

It has entries for whatever a sum that `read_sums.py` allows may select, in the order of values; all
from the 512th on are as the last. Each warp that reads it has filled it itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm.script import tirx as T

from autoq.templates.arrays.table import ENTRIES
from autoq.templates.cuda.device.functions import device_function
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.parameters.scalars import TABLE_BYTE
from autoq.templates.epilogue.cuda.short_forms.words import WORDS
from autoq.templates.epilogue.cuda.values.requantisation import readable

LONG_ENTRIES = 4096
_PACKED = 2 * ENTRIES
MORE_WORDS = (_PACKED - ENTRIES) // 4
"""Words of a packed long table behind the numbers of a short form; the first 256 bytes are where a
table's always are."""

_FILL = r"""
__device__ __forceinline__ void fill_long_table_@(void* table, const void* scalars, int lane) {
  const int at = lane < 16 ? FIRST + lane : SECOND + lane;
  const uint4 v = __ldg(reinterpret_cast<const uint4*>(scalars) + at);
  uint4* entries = reinterpret_cast<uint4*>(table);
  entries[lane] = v;
  const unsigned last = __byte_perm(__shfl_sync(0xffffffffu, v.w, 31), 0, 0x3333);
  #pragma unroll
  for (int i = 1; i < PARTS; ++i) entries[32 * i + lane] = make_uint4(last, last, last, last);
  __syncwarp();
}
"""
_NUMBERS = {
    "FIRST": TABLE_BYTE // 16,
    "SECOND": (TABLE_BYTE + ENTRIES + 4 * WORDS) // 16 - 16,
    "PARTS": LONG_ENTRIES // _PACKED,
}


def _with(source: str, numbers: Mapping[str, int]) -> str:
    for name, value in numbers.items():
        source = source.replace(name, str(value))
    return source


_FUNCTION = device_function("fill_long_table", _with(_FILL, _NUMBERS))


def has_long_table(epilogue: Epilogue) -> bool:
    """Whether kernels of an epilogue have a long table in the place of one of 256 entries."""
    return epilogue.table and readable(epilogue)


def lookup_bytes(epilogue: Epilogue) -> int:
    """Shared memory of an epilogue's table, where kernels have long ones."""
    if has_long_table(epilogue):
        return LONG_ENTRIES
    return ENTRIES if epilogue.table else 0


def packed_long_table(
    epilogue: Epilogue, constants: Mapping[str, Any], read: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The first 256 entries, of the output's type, and float32 [MORE_WORDS] of the next ones.

    read: the numbers of `Form.READ`; in other forms bytes select entries of the table as it is.
    """
    table = np.ascontiguousarray(constants["table"], epilogue.out_dtype)
    if read is None:
        return table, table.view(np.float32)
    ordered = np.roll(table, 128) if epilogue.out_dtype == "int8" else table
    shift = int(read["shift"][0])
    entries = ordered[np.clip(np.arange(_PACKED) - shift, 0, ENTRIES - 1)]
    return entries[:ENTRIES], entries[ENTRIES:].view(np.float32)


@T.inline
def fill_long_table(plan, smem, scalars, lane):
    """By each warp, before its first lookup: all of them write the same bytes."""
    T.cuda.func_call(
        _FUNCTION.name,
        smem.ptr_to([plan.lookups_at]),
        scalars.ptr_to([0]),
        lane,
        source_code=_FUNCTION.source,
    )
