"""Models of quantised tensors for tests of single passes, and what is left of them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx_models.makers import node
from qdq.oracle import Oracle, normal_feeds

from autoq.frontend import from_model
from autoq.graph import Fusion, Layer, evaluate, optimise
from autoq.templates.target import Target


def pair(x: str, to: str, scale: str = "s", zero: str = "z") -> list[onnx.NodeProto]:
    """`to` is `x`, quantised and dequantised."""
    return [node("QuantizeLinear", f"{x} {scale} {zero}", f"{to}.q"),
            node("DequantizeLinear", f"{to}.q {scale} {zero}", to)]  # fmt: skip


def optimised(made: onnx.ModelProto, target: Target) -> list[Layer | Fusion]:
    """The nodes between the quantisations of inputs and the dequantisation of the output.

    Their results are those of the model.
    """
    feeds = normal_feeds(made, np.random.default_rng(1))
    graph = optimise(from_model(made), target)
    assert not Oracle(made, feeds).complaint(evaluate(graph, feeds))
    names = [n.workload.operator if isinstance(n, Layer) else n.kind for n in graph.nodes]
    edges = ("quantize", "dequantize", "Identity")
    return [node for node, name in zip(graph.nodes, names, strict=True) if name not in edges]
