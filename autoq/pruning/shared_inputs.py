"""Which products of an ONNX graph read the same tensor, so that they may keep the same rows."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from autoq.pruning.onnx_weights import OnnxWeight

_ALIKE = ("Cast", "DequantizeLinear", "Identity", "QuantizeLinear")
"""What gives the channels that it reads."""


def rows_shared(graph: onnx.GraphProto, weights: Sequence[OnnxWeight]) -> list[tuple[int, ...]]:
    """Places of the weights of MatMul and Gemm whose products read the same channels.

    Every such weight is in one of the groups, if need be alone: its own tiles share rows too.
    """
    makers = {name: node for node in graph.node for name in node.output}

    def source(name: str) -> str:
        node = makers.get(name)
        return name if node is None or node.op_type not in _ALIKE else source(node.input[0])

    groups: dict[frozenset[str], list[int]] = {}
    for place, weight in enumerate(weights):
        if not weight.convolves:
            read = frozenset(source(node.input[0]) for node in weight.readers)
            groups.setdefault(read, []).append(place)
    return [tuple(places) for places in groups.values()]
