"""What can happen to an ONNX model, drawn at random."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from fuzz.drawing import Rng, pick
from fuzz.mutations.fields import change_any_field
from fuzz.mutations.nodes import (
    change_attribute,
    change_nodes,
    change_operator,
    nudge_attribute,
    read_earlier,
    rewire,
    splice,
)
from fuzz.mutations.values import change_port, change_tensor, change_versions, expose, make_external

# How often each is drawn beside the others.
_WEIGHTS: dict[Callable[[Rng, onnx.ModelProto], None], int] = {
    change_any_field: 2,
    rewire: 2,
    change_attribute: 3,
    change_tensor: 3,
    change_port: 2,
    change_nodes: 2,
    change_versions: 1,
    make_external: 1,
    nudge_attribute: 3,
    splice: 3,
    expose: 2,
    read_earlier: 2,
    change_operator: 2,
}
_MUTATIONS = tuple(change for change, weight in _WEIGHTS.items() for _ in range(weight))


def mutate(rng: Rng, model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of `model` with one to three changes."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for _ in range(int(pick(rng, (1, 1, 1, 2, 3)))):
        pick(rng, _MUTATIONS)(rng, changed)
    return changed
