"""Which constants a kernel of a network asks for ahead of the kernel that reads them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from autoq.compilation.selection import Selection
from autoq.graph.ir import Graph, Layer
from autoq.runtime.plan import ALIGNMENT, Call, Slot
from autoq.templates.cuda.device.launch.dependent_launch import can_overlap
from autoq.templates.target import Target

_AHEAD = 1
"""How many calls lie between a kernel and the one whose constants it asks for, and one more."""


def asks_ahead(graph: Graph, target: Target) -> bool:
    """Whether the kernels of a network read more constants than the L2 keeps until the next run.

    Others find theirs in the L2, where the run before has left them.
    """
    if not can_overlap(target):
        return False
    arrays = (
        node.constants.values() if isinstance(node, Layer) else node.constants
        for node in graph.nodes
    )
    return sum(np.asarray(one).nbytes for each in arrays for one in each) > target.l2_bytes


def asking_calls(calls: Sequence[Call], selections: Sequence[Selection]) -> tuple[Call, ...]:
    """The calls with what each asks for in front of their arguments, its first and its last unit.

    Constants of layers are asked for, which these read as a whole, and not what rows are chosen of.
    """
    nothing = (_unit(0), _unit(0))
    spans = [
        _span(call) if isinstance(one.node, Layer) else nothing
        for call, one in zip(calls, selections, strict=True)
    ]
    wanted = [*spans[_AHEAD:], *[nothing] * _AHEAD]
    return tuple(
        dataclasses.replace(call, arguments=(*span, *call.arguments))
        for call, span in zip(calls, wanted, strict=True)
    )


def _span(call: Call) -> tuple[Slot, Slot]:
    """The first and the last unit of a call's constants, of which most lie together.

    Of those apart, as what other calls read as well, the largest run.
    """
    runs: list[list[int]] = []
    slots = {(slot.offset, slot.bytes) for slot in call.arguments if slot.space == "constant"}
    for offset, size in sorted(slots):
        if runs and offset - runs[-1][1] < ALIGNMENT:
            runs[-1][1] = offset + size
        else:
            runs.append([offset, offset + size])
    first, end = max(runs, key=lambda run: run[1] - run[0], default=(0, 1))
    return _unit(first), _unit(end - 1)


def _unit(byte: int) -> Slot:
    """The first byte of the unit that holds one."""
    return Slot("constant", byte // ALIGNMENT * ALIGNMENT, (1,), "uint8")
