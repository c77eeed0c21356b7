"""Every plan of an element-wise kernel, for `bench_movement.py --plans`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from autoq.graph import Fusion
from autoq.graph.lowering.fusions import kernel_family
from autoq.templates.cuda.movement.elementwise import Plan, Successor
from autoq.templates.target import Target

THREADS, TOGETHER = (64, 128, 256, 512), (1, 2, 4, 8)


@dataclass(frozen=True)
class Planned:
    """An element-wise fusion, and a plan for it."""

    node: Fusion
    plan: Plan

    def __str__(self) -> str:
        plan = self.plan
        return f"{plan.threads} threads x {plan.together}, successor {plan.successor.value}"


def planned(nodes: Iterator[Fusion], shapes: tuple[str, ...], target: Target) -> Iterator[Planned]:
    """The element-wise of the fusions whose first input has one of the shapes, by every plan.

    A shape is written as in 8x112x112x32; raises SystemExit for one that no such fusion has.
    """
    found = [node for node in nodes if kernel_family(node, target) == "elementwise"]
    for shape in shapes:
        matching = [node for node in found if shape == "x".join(map(str, node.input_shapes[0]))]
        if not matching:
            raise SystemExit(f"--plans {shape}: no element-wise fusion has this shape")
        for node in matching:
            for threads, together, successor in itertools.product(THREADS, TOGETHER, Successor):
                yield Planned(node, Plan(threads, together, successor))
