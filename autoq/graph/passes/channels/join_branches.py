"""Convolutions beside each other become one where branches of a network are of one form.

Two branches of an inception module (Szegedy et al. 2015) are a 1x1 filter and a 3x3 one each. Small
layers cost as much to launch as to compute, so that it pays to run both branches in the kernels of
one: filters of the same input stand behind each other, and those of different inputs have weights
of zero for what is not theirs. The concatenation behind them takes its parts from one tensor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autoq.graph.fused import CONCAT, CONV
from autoq.graph.ir import Graph, Operation
from autoq.graph.rewrite import Neighbourhood, add_tensor, replace_nodes
from autoq.templates.epilogue import Epilogue
from autoq.templates.target import Target

_LAUNCHES = 2.5
"""What a layer costs beside its products, in launches of an empty kernel (H200, batch 8)."""
_UTILISATION = 0.5
"""Share of the peak at which a small layer multiplies."""
_JOINED = ("weight", "bias", "scale")


@dataclass(frozen=True)
class _Branch:
    """Convolutions between a tensor that others read as well and a concatenation, in order."""

    source: str
    convs: tuple[Operation, ...]


def join_branches(graph: Graph, target: Target) -> None:
    """Join branches of every concatenation wherever that saves more time than zeros cost.

    Rates of the target must be known.
    """
    around = Neighbourhood(graph)
    for node in graph.operations:
        if node.op != CONCAT or node.attributes["axis"] != 1 or len(graph.shape(node.output)) != 4:
            continue
        alike: dict[Hashable, dict[int, _Branch]] = defaultdict(dict)
        for at, name in enumerate(node.inputs):
            branch = _branch(name, node, around)
            if branch.convs and node.inputs.count(name) == 1:
                form = branch.source, tuple(_form(conv, graph) for conv in branch.convs)
                alike[form][at] = branch
        for branches in alike.values():
            if len(branches) > 1 and _pays([*branches.values()], graph, target):
                _join(graph, node, branches)


def _branch(name: str, reader: Operation, around: Neighbourhood) -> _Branch:
    """The chain of convolutions before `reader` that nothing else reads."""
    convs: list[Operation] = []
    while True:
        conv = around.producer(name, CONV)
        if conv is None or around.only_reader(name) is not reader or not _is_plain(conv, around):
            return _Branch(name, tuple(reversed(convs)))
        convs.append(conv)
        reader, name = conv, conv.inputs[0]


def _is_plain(conv: Operation, around: Neighbourhood) -> bool:
    """Whether a convolution of integers has filters and numbers of its channels alone."""
    a = conv.attributes
    return (
        len(conv.inputs) == 1
        and a["groups"] == 1
        and a["scale"] is not None
        and a["bias"].ndim == 1
        and a["epilogue"] == Epilogue(around.graph.dtype(conv.output))
    )


def _form(conv: Operation, graph: Graph) -> Hashable:
    """What convolutions must have in common to be one."""
    rest = {name: _hashable(v) for name, v in conv.attributes.items() if name not in _JOINED}
    dtypes = tuple(str(conv.attributes[name].dtype) for name in _JOINED)
    return (*sorted(rest.items()), conv.attributes["weight"].shape[2:], dtypes,
            graph.dtype(conv.output))  # fmt: skip


def _hashable(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes()
    return repr(value)


def _pays(branches: Sequence[_Branch], graph: Graph, target: Target) -> bool:
    """Whether launches that are saved take longer than products with zeros."""
    saved = (len(branches) - 1) * len(branches[0].convs) * _LAUNCHES * target.launch_seconds
    added = 0
    for convs in list(zip(*(branch.convs for branch in branches), strict=True))[1:]:
        weights = [conv.attributes["weight"] for conv in convs]
        n, _, h, w = graph.shape(convs[0].output)
        filters, channels = (sum(weight.shape[axis] for weight in weights) for axis in (0, 1))
        window = weights[0][0, 0].size
        added += n * h * w * (filters * channels * window - sum(weight.size for weight in weights))
    rate = _UTILISATION * target.rate(graph.dtype(branches[0].source))
    return rate > 0 and 2 * added / rate < saved


def _join(graph: Graph, node: Operation, branches: dict[int, _Branch]) -> None:
    """Put one convolution in the place of those of each depth; the concatenation reads it."""
    groups = []
    source = next(iter(branches.values())).source
    for convs in zip(*(branch.convs for branch in branches.values()), strict=True):
        first = convs[0]
        attributes = dict(first.attributes)
        for name in ("bias", "scale"):
            attributes[name] = np.concatenate([conv.attributes[name] for conv in convs])
        weights = [conv.attributes["weight"] for conv in convs]
        shared = all(conv.inputs == first.inputs for conv in convs)
        attributes["weight"] = np.concatenate(weights) if shared else _block_diagonal(weights)
        n, _, h, w = graph.shape(first.output)
        shape = (n, len(attributes["weight"]), h, w)
        output = add_tensor(graph, first.output, shape, graph.dtype(first.output))
        covers = tuple(dict.fromkeys(name for conv in convs for name in conv.covers))
        groups.append((convs, replace(first, inputs=(source,), output=output,
                                      attributes=attributes, covers=covers)))  # fmt: skip
        source = output
    replace_nodes(graph, groups)
    _read_parts(graph, node, [*branches], source)


def _block_diagonal(weights: Sequence[np.ndarray]) -> np.ndarray:
    """Filters `[k, c, r, s]` of different inputs as filters of all of them."""
    filters, channels = (sum(weight.shape[axis] for weight in weights) for axis in (0, 1))
    joined = np.zeros((filters, channels, *weights[0].shape[2:]), weights[0].dtype)
    k = c = 0
    for weight in weights:
        joined[k : k + weight.shape[0], c : c + weight.shape[1]] = weight
        k, c = k + weight.shape[0], c + weight.shape[1]
    return joined


def _read_parts(graph: Graph, node: Operation, places: Sequence[int], joined: str) -> None:
    """Let a concatenation take the parts at `places`, one behind the other, from one tensor.

    A tensor that it reads twice stays two inputs: parts of one input lie behind each other in it.
    """
    parts = node.attributes.get("parts") or tuple(
        (of, graph.shape(name)[1]) for of, name in enumerate(node.inputs)
    )
    read = [-1 if at in places else of for at, (of, _) in enumerate(parts)]
    inputs = list(dict.fromkeys(read))
    node.inputs = tuple(joined if of < 0 else node.inputs[of] for of in inputs)
    node.attributes["parts"] = tuple(
        (inputs.index(of), channels) for of, (_, channels) in zip(read, parts, strict=True)
    )
