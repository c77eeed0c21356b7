"""Products read only the channels that their weights are not zero for, from kernels that pick them.

Where all tiles of a pruned weight keep the same rows, and those of other products of the same
tensor as well, what is left is a smaller dense product. A kernel over rows that writes the tensor
has its bytes in hand, and writes the channels that are left side by side as well: that costs no
launch, where a product that gathers takes longer than a dense one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from autoq.graph.ir import Fusion, Graph, Layer, Node, Tensor
from autoq.graph.lowering.fusions import picks
from autoq.graph.results import Picked
from autoq.templates.base import Template
from autoq.templates.registry import matching
from autoq.templates.target import Target

_WHOLE = 32
"""What the number of picked channels is a multiple of: a sector, and a step of wgmma's k."""
_MOST_PICKED = 0.9
"""The largest share of channels: of more a product gains too little."""


def merge_picks(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Let kernels over rows write what products need of their bytes, and products read that.

    Of several products of a tensor all that have enough zeros read the same channels: those that
    one of them needs, in their order, and behind them others up to a whole number of steps.
    """
    readers = graph.consumers()
    changed: dict[int, Node] = {}
    for node in graph.nodes:
        if not isinstance(node, Fusion) or target.kind != "cuda":
            continue
        layers = [
            one for one in readers.get(node.output, []) if _sparse_rows(one, node) is not None
        ]
        if not layers:
            continue
        needed = np.logical_or.reduce([_needed(layer) for layer in layers])
        places = _whole(needed)
        if len(places) > _MOST_PICKED * len(needed) or not picks(node, len(places), target):
            continue
        narrow = [_narrowed(layer, places, f"{node.output}.picked") for layer in layers]
        if not all(matching(one.workload, target, templates) for one in narrow):
            continue
        picked = Picked(f"{node.output}.picked", places)
        changed[id(node)] = both = dataclasses.replace(node, picked=picked)
        changed |= {id(old): new for old, new in zip(layers, narrow, strict=True)}
        shape = both.output_shapes[-1]
        graph.tensors[picked.output] = Tensor(picked.output, shape, both.output_dtypes[-1])
    graph.nodes = [changed.get(id(node), node) for node in graph.nodes]


def _sparse_rows(node: Node, front: Fusion) -> Layer | None:
    """A product of bytes that reads what `front` writes and has zeros for whole channels of it."""
    channels = front.output_shape[-1] if front.output_shape else 0
    if not isinstance(node, Layer) or node.workload.over_channels(channels) != node.workload:
        return None
    if node.inputs[0] != front.output or node.inputs.count(front.output) > 1:
        return None
    return node if np.count_nonzero(_needed(node)) <= _MOST_PICKED * channels else None


def _needed(layer: Layer) -> np.ndarray:
    """bool [k]: the channels that a weight is not zero for."""
    return np.asarray(layer.constants["weight"]).any(axis=0)


def _whole(needed: np.ndarray) -> np.ndarray:
    """The places of what is needed, and behind them others up to a multiple of `_WHOLE`."""
    places, others = np.flatnonzero(needed), np.flatnonzero(~needed)
    return np.concatenate([places, others[: -len(places) % _WHOLE]])


def _narrowed(layer: Layer, places: np.ndarray, name: str) -> Layer:
    """The product of those channels alone, read under another name."""
    weight = np.ascontiguousarray(np.asarray(layer.constants["weight"])[:, places])
    workload = layer.workload.over_channels(len(places))
    assert workload is not None  # it is of all channels
    constants = {**layer.constants, "weight": weight}
    return dataclasses.replace(
        layer, workload=workload, constants=constants, inputs=(name, *layer.inputs[1:])
    )
