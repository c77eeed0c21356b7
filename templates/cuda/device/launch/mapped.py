"""A kernel's parameter that its device code reads through a tensor map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec


@dataclass(frozen=True)
class Mapped:
    """A parameter with the map that the host makes of it.

    encode: the function that makes it, `tma.ENCODE_TILED` or `tma.ENCODE_IM2COL`; arguments: what
    follows the address.
    """

    spec: TensorSpec
    encode: str
    rank: int
    arguments: Sequence[int]

    def encoded(self, address: Any) -> Any:
        """The address of the map, which is emitted in front of the kernel's device code."""
        space = T.tvm_stack_alloca("tensormap", 1)
        found = builder.Bind(space, T.handle("tensormap"))
        made = IRBuilder.name(f"{self.spec.name}_map", found)
        given = made, self.spec.dtype, self.rank, address, *self.arguments
        builder.evaluate(T.call_packed(self.encode, *given))
        return T.address_of(made)
