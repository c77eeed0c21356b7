"""Copies from one layout of activations to another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from autoq.templates.layout import LAYOUTS, NHWCNC, fits, shape_in
from autoq.templates.storage import stored_bytes
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class Relayout(Workload, operator="relayout"):
    """Integers `x [n, h, w, c]` from one layout of `layout.py` to another; takes no scalars."""

    n: int
    h: int
    w: int
    c: int
    in_layout: str
    out_layout: str
    in_dtype: str = "int8"

    SCALARS: ClassVar = ()

    def __post_init__(self) -> None:
        if {self.in_layout, self.out_layout} != set(LAYOUTS):
            raise ValueError(f"{self}: from one of {', '.join(LAYOUTS)} to the other")
        if not fits(self.n, self.c, self.in_dtype):
            raise ValueError(f"{self}: {self.in_dtype} does not fill the blocks of {NHWCNC}")

    @property
    def x_shape(self) -> tuple[int, ...]:
        return shape_in((self.n, self.h, self.w, self.c), self.in_layout, self.in_dtype)

    @property
    def y_shape(self) -> tuple[int, ...]:
        return shape_in((self.n, self.h, self.w, self.c), self.out_layout, self.in_dtype)

    @property
    def operations(self) -> int:
        """One operation an element."""
        return math.prod(self.x_shape)

    @property
    def bytes(self) -> int:
        """Bytes through device memory when every operand moves once."""
        return 2 * stored_bytes(self.x_shape, self.in_dtype)

    def __str__(self) -> str:
        return f"relayout N{self.n} {self.h}x{self.w}x{self.c} {self.in_layout}>{self.out_layout}"
