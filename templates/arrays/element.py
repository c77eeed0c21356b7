"""Element types: what one value of an array is, in memory, in C, in PTX and in numpy.

Every other table of dtypes is derived from this one. Workloads, records and artifacts name an
element as numpy and ml_dtypes do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Element:
    """One row of the table.

    name: as in workloads; bits: of a value in memory; c_type: what points to stored values in CUDA;
    ptx: its name in instructions, None where none takes it; range: least and most of an integer;
    tensor_map: its CUtensorMapDataType, None where TMA moves none; unpacked: the dtype that holds
    its values in numpy, for those that share a byte.
    """

    name: str
    bits: int
    c_type: str
    ptx: str | None = None
    range: tuple[int, int] | None = None
    tensor_map: int | None = None
    unpacked: str = ""

    @property
    def packed(self) -> bool:
        """Whether several values share a byte."""
        return self.bits < 8

    @property
    def per_byte(self) -> int:
        """Values that share a byte; 1 for larger ones."""
        return max(8 // self.bits, 1)

    @property
    def bytes(self) -> int:
        """Bytes of a value; raises ValueError where values share one."""
        if self.packed:
            raise ValueError(f"{self.per_byte} values of {self.name} share a byte")
        return self.bits // 8

    @property
    def per_word(self) -> int:
        """Values of a 32-bit register; raises ValueError for larger ones."""
        if self.bits > 32:
            raise ValueError(f"a value of {self.name} takes more than a register")
        return 32 // self.bits

    @property
    def floating(self) -> bool:
        """Whether values are floating-point numbers."""
        return self.name.startswith(("float", "bfloat"))

    @property
    def quantised(self) -> bool:
        """Whether it is an integer of 4 or 8 bits, as quantised arrays hold them."""
        return self.range is not None and self.bits <= 8

    @property
    def dtype(self) -> np.dtype:
        """The numpy dtype of unpacked values, one of ml_dtypes where numpy has none."""
        return numpy_dtype(self.unpacked or self.name)


_ROWS = (
    Element("int4", 4, "unsigned char", "s4", (-8, 7), None, "int8"),
    Element("uint4", 4, "unsigned char", "u4", (0, 15), None, "uint8"),
    Element("int8", 8, "signed char", "s8", (-128, 127), 0),
    Element("uint8", 8, "unsigned char", "u8", (0, 255), 0),
    Element("int16", 16, "short", "s16", (-(2**15), 2**15 - 1)),
    Element("uint16", 16, "unsigned short", "u16", (0, 0xFFFF), 1),
    Element("int32", 32, "int", "s32", (-(2**31), 2**31 - 1), 3),
    Element("uint32", 32, "unsigned", "u32", (0, 2**32 - 1), 2),
    Element("int64", 64, "long long", "s64", (-(2**63), 2**63 - 1)),
    Element("uint64", 64, "unsigned long long", "u64", (0, 2**64 - 1)),
    Element("float8_e4m3fn", 8, "__nv_fp8_e4m3", "e4m3", None, 0),
    Element("float16", 16, "__half", "f16", None, 6),
    Element("bfloat16", 16, "__nv_bfloat16", "bf16", None, 9),
    Element("float32", 32, "float", "f32", None, 7),
    Element("float64", 64, "double", "f64"),
    Element("bool", 8, "bool"),
)

ELEMENTS = {row.name: row for row in _ROWS}
"""Every element type by its name."""

INTEGER_RANGE = {row.name: row.range for row in _ROWS if row.range and row.quantised}
"""Least and most of each quantised dtype."""


def element(name: str) -> Element:
    """The element type of a name; raises ValueError for one that autoq does not know."""
    if name not in ELEMENTS:
        raise ValueError(f"element type {name!r}: known are {', '.join(ELEMENTS)}")
    return ELEMENTS[name]


def numpy_dtype(name: str) -> np.dtype:
    """The numpy dtype of a name, one of ml_dtypes where numpy has none."""
    if name.startswith(("bfloat", "float8")):
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)
