"""An MMA atom: one tensor-core instruction, D [m, n] += A [m, k] * B [n, k]."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autoq.templates.arrays.element import Element, element
from autoq.templates.cuda.device.mma.fragments import (
    WARP,
    accumulator_fragment,
    metadata_fragment,
    operand_fragment,
)


@dataclass(frozen=True)
class Atom(ABC):
    """What every instruction family has; a subclass lowers it to a call.

    shape is (m, n, k); a, b and accumulator are element types by name. A sparse atom's A is 2:4
    sparse along k: of every four elements two are stored, [m, k / 2], and a register of metadata
    says which.
    """

    shape: tuple[int, int, int]
    a: str
    b: str
    accumulator: str
    sparse: bool = False

    warps: ClassVar[int]
    """Warps that execute it together."""

    @property
    def m(self) -> int:
        return self.shape[0]

    @property
    def n(self) -> int:
        return self.shape[1]

    @property
    def k(self) -> int:
        return self.shape[2]

    @property
    def threads(self) -> int:
        return self.warps * WARP

    @property
    def shape_name(self) -> str:
        """The shape as instructions spell it."""
        return "m{}n{}k{}".format(*self.shape)

    @property
    def a_element(self) -> Element:
        return element(self.a)

    @property
    def b_element(self) -> Element:
        return element(self.b)

    @property
    def accumulator_element(self) -> Element:
        return element(self.accumulator)

    @property
    def types_name(self) -> str:
        """The types of D, A and B as instructions spell them."""
        types = (self.accumulator_element, self.a_element, self.b_element)
        return ".".join(str(kind.ptx) for kind in types)

    @property
    def stored_k(self) -> int:
        """Columns of A that are stored."""
        return self.k // 2 if self.sparse else self.k

    @property
    def a_in_registers(self) -> bool:
        """Whether threads hold A; otherwise it lies in shared memory."""
        return True

    @property
    def b_in_registers(self) -> bool:
        """Whether threads hold B; otherwise it lies in shared memory."""
        return True

    @property
    def a_registers(self) -> int:
        """Registers of A in a thread."""
        if not self.a_in_registers:
            return 0
        return self.m * self.stored_k // (self.threads * self.a_element.per_word)

    @property
    def b_registers(self) -> int:
        """Registers of B in a thread."""
        return self.n * self.k // (WARP * self.b_element.per_word) if self.b_in_registers else 0

    @property
    def d_registers(self) -> int:
        """Registers of D in a thread."""
        return self.m * self.n // (self.threads * self.accumulator_element.per_word)

    @property
    def register_dtype(self) -> str:
        """The type of a buffer of accumulators: float32, or uint32 for whatever else they hold."""
        return "float32" if self.accumulator == "float32" else "uint32"

    def a_fragment(self) -> np.ndarray:
        """Rows and stored columns of A in each register, as `fragments.py` describes maps."""
        return operand_fragment(self.m, self.stored_k, self.a_element.per_word, self.warps)

    def b_fragment(self) -> np.ndarray:
        """Rows (of n) and columns (of k) of B in each register."""
        return operand_fragment(self.n, self.k, self.b_element.per_word)

    def d_fragment(self) -> np.ndarray:
        """Rows and columns of D in each register."""
        per_word = self.accumulator_element.per_word
        return accumulator_fragment(self.m, self.n, per_word, self.warps)

    def metadata_fragment(self) -> np.ndarray:
        """Rows and chunks of four whose places the register of metadata holds."""
        return metadata_fragment(self.k, self.warps)

    @property
    @abstractmethod
    def instruction(self) -> str:
        """The instruction as PTX spells it, without operands."""

    def __str__(self) -> str:
        return self.instruction
