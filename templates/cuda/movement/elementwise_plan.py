"""How the output of an element-wise kernel is shared out among threads."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from autoq.templates.target import Target


class Successor(enum.Enum):
    """When the next kernel's blocks may start: at once, behind a thread's loads, or its stores."""

    FIRST = "first"
    LOADED = "loaded"
    STORED = "stored"


@dataclass(frozen=True)
class Plan:
    """How the output's vectors are shared out.

    threads: of a block; together: vectors of each operand that a thread asks for before it
    computes; successor: when the next kernel may start.
    """

    threads: int
    together: int
    successor: Successor = Successor.FIRST


_PLANS = (
    (2560, 0, Plan(256, 4)),
    (512, 20_000, Plan(128, 2, Successor.LOADED)),
    (512, 0, Plan(128, 2)),
    (0, 0, Plan(256, 1)),
)
"""Plans, and the vectors and the values of the output a multiprocessor from which on they are for:
the fastest on an H200, among those that are fast for every size (docs/notes/movement.md)."""


def plan_for(total: int, values: int, target: Target) -> Plan:
    """How so many values in vectors of some are shared out on a target."""
    share, vectors = total / target.units, total // values / target.units
    return next(
        plan for at_least, of_values, plan in _PLANS if vectors >= at_least and share >= of_values
    )
