"""Which values of a semantic graph are known, and what they are."""

from __future__ import annotations

import numpy as np

from autoq.graph.ir import Graph, Operation


def is_constant(graph: Graph, name: str) -> bool:
    """Whether `name` is a constant, or the dequantisation or transposition of one."""
    if name in graph.constants:
        return True
    node = next((n for n in reversed(graph.nodes) if n.output == name), None)
    return (
        isinstance(node, Operation)
        and node.op in ("DequantizeLinear", "Transpose", "Reshape")
        and is_constant(graph, node.inputs[0])
    )


def constant_value(graph: Graph, name: str) -> np.ndarray | None:
    """The value of a constant, or of the dequantisation of one; None for anything else."""
    if name in graph.constants:
        return graph.constants[name]
    node = next((n for n in reversed(graph.nodes) if n.output == name), None)
    if isinstance(node, Operation) and node.op == "DequantizeLinear":
        value = graph.constants.get(node.inputs[0])
        return None if value is None else dequantised(value, node)
    return None


def along_axis(values: np.ndarray, axis: int | None, rank: int) -> np.ndarray:
    """A scalar as it is, a vector shaped so that it broadcasts along `axis` of `rank` axes."""
    if axis is None:
        return values
    shape = [1] * rank
    shape[axis] = values.size
    return values.reshape(shape)


def dequantised(array: np.ndarray, node: Operation) -> np.ndarray:
    """float32 meaning of integers under a DequantizeLinear operation."""
    axis = node.attributes["axis"]
    scale = along_axis(node.attributes["scale"], axis, array.ndim)
    zero_point = along_axis(node.attributes["zero_point"], axis, array.ndim)
    return ((array.astype(np.int64) - zero_point).astype(np.float32) * scale).astype(np.float32)
