"""A concatenation and the batch normalisation behind it are one kernel with two results.

DenseNet normalises, and quantises, all that it has concatenated so far in front of each layer, and
concatenates it again behind; the values are in registers when they are concatenated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.graph.ir import Fusion, Graph, Layer, Node
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.base import Template
from autoq.templates.operators.concat import scaled_concat
from autoq.templates.registry import matching
from autoq.templates.target import Target

_AFFINE = ("dequantize", "Mul", "Add", "quantize")


def merge_concat(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Let each concatenation write what one affine fusion behind it makes of it, too."""
    readers: dict[str, list[Fusion]] = {}
    for node in graph.nodes:
        if isinstance(node, Fusion) and len(node.inputs) == 1:
            readers.setdefault(node.inputs[0], []).append(node)
    gone: set[int] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        if id(node) in gone:
            continue
        merged, reader = _scaled(node, readers, target, templates)
        gone.update([id(reader)] if reader is not None else [])
        nodes.append(merged)
    graph.nodes = nodes


def _scaled(
    node: Node, readers: Mapping[str, list[Fusion]], target: Target, templates: Sequence[Template]
) -> tuple[Node, Fusion | None]:
    """A layer with the fusion that it takes in, or itself and None."""
    if not isinstance(node, Layer) or node.further_outputs:
        return node, None
    for reader in readers.get(node.output, []):
        workload = scaled_concat(node.workload, reader.primitives[-1].dtype)
        if workload is None or not matching(workload, target, templates):
            continue
        affine = _affine(reader, workload.y_shape[1])
        if affine is not None:
            constants = {**node.constants, **affine.constants()}
            covers = tuple(dict.fromkeys((*node.covers, *reader.covers)))
            return Layer(
                workload, constants, node.inputs, node.output, covers, node.float_reason,
                node.weight_values, (reader.output,), node.precision,
            ), reader  # fmt: skip
    return node, None


@dataclass(frozen=True)
class _Affine:
    """`quantise(dequantise(y) * factor + offset)` with a number a channel each."""

    origin: float
    scale: float
    factor: np.ndarray
    offset: np.ndarray
    steps: Mapping[str, Any]

    def constants(self) -> dict[str, np.ndarray]:
        """Those of a concatenation that scales: in steps of the result, computed in float64."""
        step = self.steps["scale"]
        zero_point = self.steps["zero_point"]
        scaled = [self.origin, self.steps["low"], self.steps["high"], zero_point]
        return {
            "factor": (self.factor.astype(np.float64) * self.scale / step).astype(np.float32),
            "offset": (self.offset.astype(np.float64) / step).astype(np.float32),
            "scaled": np.array(scaled, np.float32),
        }


def _affine(node: Fusion, channels: int) -> _Affine | None:
    """What a fusion of channels-last bytes computes, None where it is anything else."""
    if tuple(primitive.op for primitive in node.primitives) != _AFFINE:
        return None
    if node.input_shapes[0] != node.output_shape or node.output_shape[-1] != channels:
        return None
    dequantise, multiply, add, quantise = node.primitives
    given = len(node.constants) + 1
    numbers = []
    for place, primitive in enumerate((multiply, add)):
        before = given + place
        others = [at for at in primitive.arguments if at != before]
        if dequantise.arguments != (0,) or len(others) != 1 or not 0 < others[0] < given:
            return None
        array = node.constants[others[0] - 1]
        if array.shape[-1:] not in ((channels,), (1,)) or array.size != array.shape[-1]:
            return None
        numbers.append(np.broadcast_to(array.reshape(-1), (channels,)))
    if quantise.arguments != (given + 2,) or quantise.dtype not in INTEGER_RANGE:
        return None
    factor, offset = numbers
    finite = bool(np.isfinite(factor).all() and np.isfinite(offset).all())
    steps = dict(quantise.attributes)
    origin, scale = dequantise["zero_point"], dequantise["scale"]
    return _Affine(origin, scale, factor, offset, steps) if finite else None
