"""mma.sync: products of a warp, all of whose operands are registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tvm.script import tirx as T

from autoq.templates.cuda.device.mma.atom import Atom


@dataclass(frozen=True)
class MmaSync(Atom):
    """One mma.sync, or mma.sp with metadata in ascending order."""

    warps: ClassVar[int] = 1

    @property
    def instruction(self) -> str:
        variant = "mma.sp::ordered_metadata" if self.sparse else "mma"
        kind = self.accumulator_element.ptx
        return f"{variant}.sync.aligned.{self.shape_name}.row.col.{self.types_name}.{kind}"

    def call(
        self,
        d: Sequence[Any],
        a: Sequence[Any],
        b: Sequence[Any],
        metadata: Any = None,
        selector: int = 0,
    ) -> Any:
        """The call expression of D += A * B; wrap it in T.evaluate.

        d: `d_registers` elements of a buffer of `register_dtype`; a, b: uint32 registers. A sparse
        atom takes its register of metadata, and with k = 32 which threads of four give theirs:
        selector 0 for the first two, 1 for the last two.
        """
        counts = (len(d), len(a), len(b))
        if counts != (self.d_registers, self.a_registers, self.b_registers):
            raise ValueError(f"{self}: {counts} registers of D, A and B")
        if self.sparse != (metadata is not None):
            raise ValueError(f"{self}: metadata belongs to sparse products")
        behind = (metadata, selector) if self.sparse else ()
        return T.ptx[self.instruction](*d, *a, *b, *d, *behind)
