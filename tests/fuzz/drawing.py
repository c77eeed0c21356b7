"""How mutations of a model draw, and the names of its tensors that they draw from."""

from __future__ import annotations

import numpy as np
import onnx

Rng = np.random.Generator


def pick(rng: Rng, values):
    """One of several values, as it is."""
    return values[int(rng.integers(len(values)))]


def tensor_names(model: onnx.ModelProto) -> list[str]:
    """Every tensor of the graph, no name, and one that nothing has."""
    graph = model.graph
    names = [value.name for value in (*graph.input, *graph.output, *graph.initializer)]
    return [*names, *(name for node in graph.node for name in node.output), "", "nobody"]
