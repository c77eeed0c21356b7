"""Layouts of activations over an optimised graph: one along a chain, re-laid only where it pays.

A layer may have any form of `Workload.laid_out`: a convolution reads and writes either layout of
`templates/arrays/layout.py`, its residual being in the layout that it writes. Everything else is
NHWC, and so are the model's inputs and outputs. A tensor that is needed in the other layout too is
copied once, before its first reader that wants it.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from autoq.graph.ir import Graph, Layer, Node, Siblings
from autoq.templates.arrays.layout import NHWC, NHWCNC, shape_in
from autoq.templates.operators.relayout import Relayout
from autoq.templates.workload import Workload

# States kept after a node. Three forms of each tensor that is still to be read make a state, so
# that this is exact while at most six tensors with a choice are alive, as in ResNets.
_MOST_STATES = 729


class LayoutCosts(Protocol):
    """What the choice is made by."""

    def seconds(self, workload: Workload) -> float | None:
        """Time of a layer; None where nothing is known of it or nothing computes it."""
        ...

    def copying_seconds(self, copy: Workload) -> float | None:
        """Time of a copy from one layout to another; None where nothing computes it."""
        ...


_Form = tuple[str, str]
"""A tensor and a layout in which it lies in memory."""


@dataclass(frozen=True)
class _Choice:
    """A workload in layouts that a node may have, and its time; None: it has no choice."""

    workload: Workload | None = None
    seconds: float = 0.0

    def gives(self, node: Node) -> list[_Form]:
        """The forms that the node writes, in the order of its outputs."""
        if self.workload is None:
            return [(name, NHWC) for name in node.outputs]
        layouts = (spec.layout for spec in self.workload.outputs)
        return list(zip(node.outputs, layouts, strict=True))

    def needs(self, node: Node) -> list[_Form]:
        """The forms that the node reads, in the order of its inputs."""
        if self.workload is None:
            return [(name, NHWC) for name in node.inputs]
        layouts = (spec.layout for spec in self.workload.inputs)
        return list(zip(node.inputs, layouts, strict=True))

    @property
    def blocked(self) -> int:
        """How many of its sides, the first input and the first output, are in NHWCnc."""
        if self.workload is None:
            return 0
        sides = self.workload.inputs[0], self.workload.outputs[0]
        return [spec.layout for spec in sides].count(NHWCNC)


@dataclass(frozen=True)
class _Path:
    """The best way to a state: its time, ties going to fewer NHWCnc sides, and the last step."""

    seconds: float = 0.0
    blocked: int = 0
    choice: _Choice | None = None
    copies: tuple[_Form, ...] = ()
    before: _Path | None = None

    @property
    def order(self) -> tuple[float, int]:
        return self.seconds, self.blocked


def choose_layouts(graph: Graph, costs: LayoutCosts) -> Graph:
    """An optimised graph with the layouts of least total time.

    The given graph is left as it is, and returned where NHWC throughout is best.
    """
    choices = [_choices(graph, node, costs) for node in graph.nodes]
    if all(len(options) == 1 for options in choices):
        return graph
    steps = _cheapest(graph, choices, costs)
    if not any(choice.blocked for choice, _ in steps):
        return graph
    return _rewritten(graph, steps)


def _choices(graph: Graph, node: Node, costs: LayoutCosts) -> list[_Choice]:
    """What a node may read and write, NHWC first."""
    if not isinstance(node, Layer) or len(forms := node.workload.laid_out()) == 1:
        return [_Choice()]
    names, workload = (*node.inputs, *node.outputs), node.workload
    # Only a tensor of the workload's own shape, and no output of the graph, has another form.
    images = [
        graph.shape(name) == spec.shape and not (name in graph.outputs and name in node.outputs)
        for name, spec in zip(names, (*workload.inputs, *workload.outputs), strict=True)
    ]
    found: list[_Choice] = []
    for laid in forms:  # NHWC throughout first
        specs = (*laid.inputs, *laid.outputs)
        if not all(image or spec.layout == NHWC for image, spec in zip(images, specs, strict=True)):
            continue
        seconds = costs.seconds(laid)
        if seconds is not None:
            found.append(_Choice(laid, seconds))
        elif not found:  # nothing to compare other layouts with
            break
    return found or [_Choice()]


def _cheapest(
    graph: Graph, choices: list[list[_Choice]], costs: LayoutCosts
) -> list[tuple[_Choice, tuple[_Form, ...]]]:
    """Each node's choice and the copies made before it, by dynamic programming in running order.

    A state is the set of forms in which tensors lie that later nodes read.
    """
    last = {name: index for index, node in enumerate(graph.nodes) for name in node.inputs}
    start = frozenset((name, NHWC) for name in graph.inputs)
    paths: dict[frozenset[_Form], _Path] = {start: _Path()}
    for index, (node, options) in enumerate(zip(graph.nodes, choices, strict=True)):
        found: dict[frozenset[_Form], _Path] = {}
        for (state, path), choice in itertools.product(paths.items(), options):
            copies = tuple(dict.fromkeys(need for need in choice.needs(node) if need not in state))
            seconds = path.seconds + choice.seconds + _copying(graph, copies, costs)
            after = _Path(seconds, path.blocked + choice.blocked, choice, copies, path)
            forms = (*state, *copies, *choice.gives(node))
            alive = frozenset(form for form in forms if last.get(form[0], -1) > index)
            if alive not in found or after.order < found[alive].order:
                found[alive] = after
        best = sorted(found.items(), key=lambda item: item[1].order)[:_MOST_STATES]
        paths = dict(best)
    steps = []
    step: _Path | None = next(iter(paths.values()))
    while step is not None and step.choice is not None:
        steps.append((step.choice, step.copies))
        step = step.before
    return steps[::-1]


def _relayout(graph: Graph, form: _Form) -> Relayout:
    """The copy that gives a tensor in a layout, from the other one."""
    name, layout = form
    other = NHWC if layout == NHWCNC else NHWCNC
    return Relayout(*_image(graph, name), other, layout, graph.dtype(name))


def _copying(graph: Graph, copies: Iterable[_Form], costs: LayoutCosts) -> float:
    """Seconds of copies; infinite where one of them cannot be made."""
    seconds = [costs.copying_seconds(_relayout(graph, form)) for form in copies]
    return sum(float("inf") if one is None else one for one in seconds)


def _rewritten(graph: Graph, steps: list[tuple[_Choice, tuple[_Form, ...]]]) -> Graph:
    """The graph with the chosen layouts, and a re-layout for each copy."""
    new = Graph(graph.name, dict(graph.tensors), [], graph.inputs, graph.outputs, graph.constants)
    names: dict[_Form, str] = {(name, NHWC): name for name in graph.inputs}
    for node, (choice, copies) in zip(graph.nodes, steps, strict=True):
        for form in copies:
            workload = _relayout(graph, form)
            name = _unused(f"{form[0]}.{form[1].lower()}", new)
            new.tensors[name] = dataclasses.replace(
                graph.tensors[form[0]], name=name, shape=workload.y_shape
            )
            source = names[form[0], workload.in_layout]
            new.nodes.append(Layer(workload, {}, (source,), name, ()))
            names[form] = name
        new.nodes.append(_laid_out(node, choice, tuple(names[form] for form in choice.needs(node))))
        for name, layout in choice.gives(node):
            names[name, layout] = name
            if layout != NHWC:
                shape = shape_in(_image(graph, name), layout, graph.dtype(name))
                new.tensors[name] = dataclasses.replace(graph.tensors[name], shape=shape)
    return new


def _laid_out(node: Node, choice: _Choice, inputs: tuple[str, ...]) -> Node:
    """The node in the chosen layouts, reading the tensors `inputs`."""
    if isinstance(node, Siblings):
        return node.reading(inputs)
    new = copy.copy(node)
    new.inputs = inputs
    if isinstance(new, Layer) and choice.workload is not None:
        new.workload = choice.workload
    return new


def _image(graph: Graph, name: str) -> tuple[int, int, int, int]:
    """(n, h, w, c) of a tensor that has several forms."""
    n, h, w, c = graph.shape(name)
    return n, h, w, c


def _unused(base: str, graph: Graph) -> str:
    names = itertools.chain([base], (f"{base}.{count}" for count in itertools.count(1)))
    return next(name for name in names if name not in graph.tensors)
