"""Whether every call of a plan reads what an earlier one wrote, and nobody overwrites it."""

from __future__ import annotations

import bisect

from autoq.errors import ArtifactError
from autoq.runtime.plan import Plan, Slot


def check_flow(plan: Plan) -> None:
    """Raise ArtifactError for a call that reads what is not there, or writes where it must not.

    A call writes its last argument and reads the others. It may write neither what it reads nor
    an input of the model, which the next run reads again.
    """
    inputs, written = _Spans(), _Spans()
    for port in plan.inputs:
        inputs.add(port.slot)
        written.add(port.slot)
    for number, call in enumerate(plan.calls):
        *sources, target = call.arguments
        name = f"call {number} ({call.layer})"
        for slot in sources:
            if slot.space == "arena" and not written.hold(slot):
                raise ArtifactError(f"{name} reads bytes at {slot.offset} that no call wrote")
        if target.space != "arena" or inputs.touch(target):
            raise ArtifactError(f"{name} overwrites an input or a constant")
        if any(_overlap(slot, target) for slot in sources):
            raise ArtifactError(f"{name} overwrites what it reads")
        written.add(target)
    for port in plan.outputs:
        if not written.hold(port.slot):
            raise ArtifactError(f"output {port.name!r} is not there after the last call")


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


def _overlap(a: Slot, b: Slot) -> bool:
    """Whether two arrays share a byte."""
    apart = a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
    return a.space == b.space and not apart
