"""A layer normalisation joins the product whose rows it normalises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autoq.graph.ir import Fusion, Graph, Layer, Node
from autoq.graph.lowering.cuda.byte_normalisation import normalisation_parts
from autoq.graph.lowering.cuda.expressions import output_bounds
from autoq.templates.base import Template
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.normalised_gemm import NormalisedGemm
from autoq.templates.registry import matching
from autoq.templates.target import Target


def merge_normalised(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Let products write the normalisation of their rows, where nobody else reads them."""
    producers = graph.producers()
    readings = Counter(name for node in graph.nodes for name in node.inputs)
    readings.update(graph.outputs)
    places = {id(node): index for index, node in enumerate(graph.nodes)}
    nodes: list[Node | None] = list(graph.nodes)
    for node in graph.nodes:
        if not isinstance(node, Fusion) or node.picked or node.quantised or not node.inputs:
            continue
        front = producers.get(node.inputs[0])
        if not isinstance(front, Layer) or readings[front.output] != 1:
            continue
        both = _merged(front, node)
        if both is None or not matching(both.workload, target, templates):
            continue
        nodes[places[id(front)]], nodes[places[id(node)]] = None, both
    graph.nodes = [node for node in nodes if node is not None]


def _merged(front: Layer, node: Fusion) -> Layer | None:
    product = front.workload.dense
    if not isinstance(product, Gemm) or product.epilogue.out_dtype != "uint8":
        return None
    parts = normalisation_parts(node)
    last = node.primitives[-1]
    whole = {"uint8": (0, 255), "int8": (-128, 127)}
    if parts is None or last.op != "quantize" or parts.x != 0 or len(node.inputs) != 1:
        return None
    low, high, zero_point = output_bounds(last)
    if (low + zero_point, high + zero_point) != whole[last.dtype]:
        return None
    scale, step = np.float32(parts.dequantise["scale"]), np.float32(last["scale"])
    epsilon, factor, offset = (
        np.asarray(node.constants[place - 1], np.float32).reshape(-1)
        for place in (parts.epsilon, parts.factor, parts.offset)
    )
    if factor.size != product.n or offset.size != product.n:
        return None
    in_steps = np.float32(1 / float(step))
    numbers = [
        np.float32(1 / product.n**2), epsilon[0] * np.float32(1 / float(scale) ** 2), in_steps,
        zero_point,
    ]  # fmt: skip
    workload = NormalisedGemm(
        product.m, product.n, product.k, product.in_dtype, product.weight_dtype, product.epilogue,
        last.dtype,
    )  # fmt: skip
    constants = {
        **front.constants, "factor": factor, "offset": offset * in_steps,
        "numbers": np.asarray(numbers, np.float32),
    }  # fmt: skip
    covers = tuple(dict.fromkeys((*front.covers, *node.covers)))
    return replace(
        front, workload=workload, constants=constants, output=node.output, covers=covers,
        weight_values="",
    )  # fmt: skip
