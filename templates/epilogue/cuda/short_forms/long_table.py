"""The table of `Form.READ`, whose index no instruction has clamped from above.

Its entries stand in the order of values, from -256 to 255, and clamp them to the bounds that there
are. Each warp that reads it has asked for all of it itself as the kernel begins: loads whose words
a warp stores would keep it from its first product.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm.script import tirx as T

from autoq.templates.arrays.table import ENTRIES, look_up
from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.epilogue import SCALAR_NAMES, Epilogue
from autoq.templates.epilogue.cuda.parameters.scalars import TABLE_BYTE
from autoq.templates.epilogue.cuda.short_forms.allowed import readable
from autoq.templates.epilogue.cuda.short_forms.words import ABOVE_FIRST, WORDS

LONG_ENTRIES = 2 * ENTRIES
TABLE_ALIGNMENT = 16
_BOUNDS = [SCALAR_NAMES.index(name) for name in ("low", "high", "zero_point")]
MORE_WORDS = (LONG_ENTRIES - ENTRIES) // 4
"""Words of a packed long table behind the numbers of a short form; the first 256 bytes are where a
table's always are."""

_COPY = r"""
__device__ __forceinline__ void copy_table_@(void* table, const void* scalars, int lane) {
  if (lane >= LANES) return;
  const unsigned to = (unsigned)__cvta_generic_to_shared(table) + 16 * lane;
  const char* from = static_cast<const char*>(scalars) + (lane < 16 ? FIRST : SECOND) + 16 * lane;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
}
"""


def _copy(entries: int) -> DeviceFunction:
    source = _COPY.replace("LANES", str(entries // 16)).replace("FIRST", str(TABLE_BYTE))
    return device_function("copy_table", source.replace("SECOND", str(TABLE_BYTE + 4 * WORDS)))


_AWAIT = device_function(
    "await_table",
    r"""
__device__ __forceinline__ void await_table_@() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncwarp();
}
""",
)


def has_long_table(epilogue: Epilogue) -> bool:
    """Whether kernels of an epilogue have a long table in the place of one of 256 entries."""
    return epilogue.table and readable(epilogue)


def lookup_bytes(epilogue: Epilogue) -> int:
    """Shared memory of an epilogue's table and its alignment, where kernels have long ones."""
    entries = LONG_ENTRIES if has_long_table(epilogue) else ENTRIES
    return entries + TABLE_ALIGNMENT if epilogue.table else 0


def packed_long_table(
    epilogue: Epilogue, constants: Mapping[str, Any], read: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The first 256 entries, of the output's type, and float32 [MORE_WORDS] of the next ones.

    read: whether the form is READ; in others bytes select entries of the table as it is.
    """
    table = np.ascontiguousarray(constants["table"], epilogue.out_dtype)
    if not read:
        return table, table.view(np.float32)
    low, high, zero_point = (int(constants["scalars"][place]) for place in _BOUNDS)
    values = np.clip(np.arange(LONG_ENTRIES) - ABOVE_FIRST, low, high) + zero_point
    entries = look_up(table, values.astype(epilogue.out_dtype))
    return entries[:ENTRIES], entries[ENTRIES:].view(np.float32)


@T.inline
def copy_table(plan, smem, scalars, lane):
    """Begin to bring the table of an epilogue; all warps write the same bytes."""
    copy = T.meta_var(_copy(lookup_bytes(plan.epilogue) - TABLE_ALIGNMENT))
    T.cuda.func_call(
        copy.name,
        smem.ptr_to([plan.lookups_at]),
        scalars.ptr_to([0]),
        lane,
        source_code=copy.source,
    )


@T.inline
def await_table():
    """By each warp: what it has copied is there."""
    T.cuda.func_call(_AWAIT.name, source_code=_AWAIT.source)
