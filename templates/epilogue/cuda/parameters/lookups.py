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

_FILL = r"""
__device__ __forceinline__ void fill_table_@(void* table, const void* scalars, int lane) {
  reinterpret_cast<uint2*>(table)[lane] =
      __ldg(reinterpret_cast<const uint2*>(scalars) + FIRST + lane);
  __syncwarp();
}
"""
_FUNCTION = device_function("fill_table", _FILL.replace("FIRST", str(TABLE_BYTE // 8)))


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
