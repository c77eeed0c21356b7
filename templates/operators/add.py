"""Addition of two quantised or float32 arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from autoq.templates.storage import stored_bytes
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class Add(Workload, operator="add"):
    """`y = clamp(rint((a - a_zero_point) * a_scale + (b - b_zero_point) * b_scale), low, high) +
    zero_point` over equal shapes; a_scale and b_scale are already divided by the output's scale.

    Float32: `y = clamp(a + b, low, high)`.
    """

    shape: tuple[int, ...]
    a_dtype: str = "int8"
    b_dtype: str = "int8"
    out_dtype: str = "int8"

    SCALARS: ClassVar = (
        "a_zero_point",
        "a_scale",
        "b_zero_point",
        "b_scale",
        "low",
        "high",
        "zero_point",
    )

    @property
    def y_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def operations(self) -> int:
        """One addition an element."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes through device memory when every operand moves once."""
        dtypes = (self.a_dtype, self.b_dtype, self.out_dtype)
        return sum(stored_bytes(self.shape, name) for name in dtypes)

    def __str__(self) -> str:
        return "add " + "x".join(map(str, self.shape))
