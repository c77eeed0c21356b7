"""Any element-wise function of one tensor of 8 or 4 bits, as a table."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autoq.templates.storage import stored_bytes, value_dtype
from autoq.templates.table import ENTRIES
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class Lookup(Workload, operator="lookup"):
    """`y[i] = table[x[i]]`, where a value x selects the entry of its byte, `x & 255`.

    in_dtype is int4, uint4, int8 or uint8; out_dtype one of these or float32. The operand `table`
    has 256 entries of the type that holds an unpacked value of out_dtype.
    """

    shape: tuple[int, ...]
    in_dtype: str = "int8"
    out_dtype: str = "int8"

    @property
    def y_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def operations(self) -> int:
        """One lookup an element."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes through device memory when every operand moves once."""
        return sum(stored_bytes(self.shape, name) for name in (self.in_dtype, self.out_dtype))

    def __str__(self) -> str:
        return "lookup " + "x".join(map(str, self.shape))


def packed_table(workload: Lookup, table: np.ndarray) -> np.ndarray:
    """The `table` operand [256] as kernels take it: entries of the output's unpacked type."""
    return np.ascontiguousarray(table, value_dtype(workload.out_dtype)).reshape(ENTRIES)
