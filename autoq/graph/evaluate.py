"""An optimised graph computed in numpy, node by node: what compiled modules must give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from autoq.errors import InputError
from autoq.graph.ir import Fusion, Graph, Layer, Siblings
from autoq.graph.primitive_numpy import evaluate_fusion
from autoq.templates.operators.dynamic_quantize import DynamicQuantize


def evaluate(
    graph: Graph,
    feeds: Mapping[str, np.ndarray],
    before_layer: Callable[[Layer, list[np.ndarray]], None] | None = None,
) -> dict[str, np.ndarray]:
    """The graph's outputs by name, for arrays of its inputs' names, shapes and dtypes.

    before_layer is told of each layer with what it reads, in its shapes, before it is computed.
    Raises InputError for feeds that do not fit.
    """
    values = _checked(graph, feeds)
    remaining = {name: len(readers) for name, readers in graph.consumers().items()}
    for node in graph.nodes:
        inputs = [values[name] for name in node.inputs]
        if isinstance(node, Layer):
            shaped = [x.reshape(s) for x, s in zip(inputs, node.input_shapes, strict=True)]
            if before_layer is not None:
                before_layer(node, shaped)
            results = node.workload.reference(shaped, node.constants)
        elif isinstance(node, Fusion | Siblings):
            results = tuple(
                result
                for part in node.parts
                for result in fusion_outputs(part, [values[name] for name in part.inputs])
            )
        else:
            raise TypeError(f"{node.op}: evaluate takes an optimised graph")
        for name, result in zip(node.outputs, results, strict=True):
            values[name] = result.reshape(graph.shape(name))
        for name in node.inputs:
            remaining[name] -= 1
            if not remaining[name] and name not in graph.outputs:
                values.pop(name, None)
    return {name: values[name].astype(graph.tensors[name].value_dtype) for name in graph.outputs}


def fusion_outputs(node: Fusion, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """All that a fusion writes: its result, what that is quantised to, and what is picked of it."""
    result = evaluate_fusion(node, inputs)
    found = [result]
    if node.quantised:
        found += DynamicQuantize(result.size).reference([result.reshape(-1)], {})
    if node.picked is not None:
        found.append(result.reshape(node.output_shape)[..., node.picked.places])
    return tuple(found)


def _checked(graph: Graph, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    if set(feeds) != set(graph.inputs):
        raise InputError(f"feeds for {sorted(feeds)}; the inputs are {list(graph.inputs)}")
    for name, array in feeds.items():
        tensor = graph.tensors[name]
        if array.shape != tensor.shape or str(array.dtype) != tensor.value_dtype:
            raise InputError(
                f"input {name!r}: {array.dtype}{list(array.shape)}; "
                f"the model takes {tensor.value_dtype}{list(tensor.shape)}"
            )
    return {name: array.astype(graph.dtype(name)) for name, array in feeds.items()}
