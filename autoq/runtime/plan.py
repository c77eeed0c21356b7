"""A compiled model as data: buffers at fixed offsets and kernels over them, in running order."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from autoq.runtime.strict_json import decode
from autoq.templates.arrays.element import numpy_dtype

ALIGNMENT = 256
"""Bytes; satisfies TMA (128), vector loads of CPU kernels (64) and the driver's suballocation."""


@dataclass(frozen=True)
class Slot:
    """An array inside the arena or the constants.

    space is "arena" or "constant"; offset counts bytes from its start.
    """

    space: str
    offset: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * numpy_dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Port:
    """An input or output of the model; it keeps its arena slot for itself.

    values is the type of its numbers where the slot's is another one: a 4-bit input or output holds
    one number a byte. places, where it is not 0, says that its integers are places among so many,
    counted from either end.
    """

    name: str
    slot: Slot
    values: str = ""
    places: int = 0

    @property
    def dtype(self) -> str:
        """The type of its numbers."""
        return self.values or self.slot.dtype


@dataclass(frozen=True)
class Call:
    """One kernel call. `kernel` indexes the artifact's kernels.

    The kernel reads arguments and writes outputs, which are its parameters in this order, and uses
    workspaces while it runs.

    The rest is for reports: the layer's ONNX name, what it computes, the kernel that does it and
    where its configuration comes from, its operations and bytes, and its roofline in seconds
    (0 where unknown).
    """

    kernel: int
    arguments: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    workspaces: tuple[Slot, ...]
    layer: str
    workload: str
    template: str
    source: str
    operations: int
    bytes: int
    roofline_seconds: float

    @property
    def slots(self) -> tuple[Slot, ...]:
        """All buffers in the order in which the kernel numbers them."""
        return (*self.arguments, *self.outputs, *self.workspaces)


@dataclass(frozen=True)
class Plan:
    """Everything but machine code and constants.

    target_kind is "cuda" or "cpu", arch what the kernels were compiled for, cpu_features the CPU
    features they need.
    """

    model: str
    target_kind: str
    arch: str
    cpu_features: tuple[str, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arena_bytes: int
    constant_bytes: int
    calls: tuple[Call, ...]


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """A JSON-able mapping that `plan_from_json` reads back."""
    return dataclasses.asdict(plan)


def plan_from_json(data: Any) -> Plan:
    """The plan that `plan_to_json` wrote; raises ValueError for anything else.

    Whether its numbers make sense is `plan_check`'s to say.
    """
    return decode(Plan, data, "plan")
