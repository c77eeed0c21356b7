"""Whether every call of a plan reads what an earlier one wrote, and nobody overwrites it."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from autoq.errors import ArtifactError
from autoq.runtime.kernel import Kernel
from autoq.runtime.plan import Call, Plan, Slot


def check_flow(plan: Plan, kernels: Sequence[Kernel]) -> None:
    """Raise ArtifactError for a call that reads what is not there, or writes where it must not.

    A call may write, outputs and workspaces, neither what it reads nor an input of the model,
    which the next run reads again, nor the zeros that a workspace of another call stays at.
    """
    lasting, written = _Spans(), _Spans()
    for port in plan.inputs:
        lasting.add(port.slot)
        written.add(port.slot)
    for number, call in enumerate(plan.calls):
        for slot in _staying(call, kernels):
            if slot.space != "arena" or lasting.touch(slot):
                raise ArtifactError(f"call {number} ({call.layer}) shares zeros that stay")
            lasting.add(slot)
    for number, call in enumerate(plan.calls):
        name = f"call {number} ({call.layer})"
        for slot in call.arguments:
            if slot.space == "arena" and not written.hold(slot):
                raise ArtifactError(f"{name} reads bytes at {slot.offset} that no call wrote")
        used = _Spans()
        for slot in call.arguments:
            if slot.space == "arena":
                used.add(slot)
        staying = _staying(call, kernels)
        for slot in (*call.outputs, *call.workspaces):
            if slot.space != "arena" or (slot not in staying and lasting.touch(slot)):
                raise ArtifactError(f"{name} overwrites an input or a constant")
            if used.touch(slot):
                raise ArtifactError(f"{name} overwrites what it reads")
            used.add(slot)
        for slot in call.outputs:
            written.add(slot)
        for slot in call.workspaces:
            written.remove(slot)
    for port in plan.outputs:
        if not written.hold(port.slot):
            raise ArtifactError(f"output {port.name!r} is not there after the last call")


def _staying(call: Call, kernels: Sequence[Kernel]) -> list[Slot]:
    """A call's workspaces that stay zero between runs."""
    pairs = zip(call.workspaces, kernels[call.kernel].workspaces, strict=True)
    return [slot for slot, workspace in pairs if workspace.stays_zero]


class _Spans:
    """Disjoint spans of the arena, each the bytes of one array."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, slot: Slot) -> None:
        """Take in an array; those that it overwrites, in part or whole, are gone."""
        found = self._touched(slot)
        self._starts[found] = [slot.offset]
        self._ends[found] = [slot.offset + slot.bytes]

    def remove(self, slot: Slot) -> None:
        """Forget the arrays that share a byte with one."""
        found = self._touched(slot)
        del self._starts[found]
        del self._ends[found]

    def touch(self, slot: Slot) -> bool:
        """Whether an array shares a byte with one of the spans."""
        found = self._touched(slot)
        return found.start < found.stop

    def hold(self, slot: Slot) -> bool:
        """Whether an array lies inside one of the spans."""
        found = self._touched(slot)
        inside = found.stop - found.start == 1 and self._starts[found.start] <= slot.offset
        return inside and slot.offset + slot.bytes <= self._ends[found.start]

    def _touched(self, slot: Slot) -> slice:
        first = bisect.bisect_right(self._ends, slot.offset)
        return slice(first, max(first, bisect.bisect_left(self._starts, slot.offset + slot.bytes)))
