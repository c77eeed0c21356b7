"""Products of float32 activations with constant matrices, computed through integers on request."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.graph.fused import WORKLOAD
from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.passes.layers.residual_convolutions import (
    QuantisedImages,
    residual_convolution,
)
from autoq.graph.precision import ResidualPrecision
from autoq.graph.rewrite import Neighbourhood, add_tensor, prune
from autoq.graph.shapes import infer_shape
from autoq.residual.crossover import default_crossover
from autoq.residual.setting import Setting
from autoq.templates.arrays.layout import NHWC
from autoq.templates.base import Template
from autoq.templates.operators.residual_gemm import ResidualGemm, longest_sum
from autoq.templates.registry import matching
from autoq.templates.target import Target


def residual_products(
    graph: Graph,
    target: Target,
    templates: Sequence[Template],
    precision: ResidualPrecision,
    settings: Mapping[str, Setting],
) -> None:
    """Replace each Gemm and Conv of float32 with constant weights that templates compute so.

    settings: those of operations by their names, where they are not the precision's. A Gemm, or a
    convolution of single pixels, becomes a `ResidualGemm`. Any other convolution of one group does
    under a sparse correction, where the values that matter have to be gathered: a row is then the
    window of a pixel, has a scale of its own, and is written to memory. Without a correction, or
    with a full one, it becomes convolutions of integers (`residual_convolutions.py`).

    Raises InputError for a model without such a layer.
    """
    around = Neighbourhood(graph)
    usual = precision.setting(default_crossover(target))
    nodes: list[Node] = []
    images: dict[str, QuantisedImages] = {}
    replaced = 0
    for node in graph.operations:
        setting = settings.get(node.name, usual)
        product = float_product(around, node, setting.bits)
        if product is None:
            nodes.append(node)
        elif product.is_convolution and setting.correction != "sparse":
            nodes += residual_convolution(
                graph, node, product.matrix, product.bias, setting, images
            )
            replaced += 1
        elif matching(workload := product.workload(setting), target, templates):
            nodes += product.operations(graph, node, workload, setting)
            replaced += 1
        else:
            nodes.append(node)
    graph.nodes = nodes
    prune(graph)
    if not replaced:
        raise InputError(
            f"precision {precision.name}: the model {graph.name!r} has no MatMul, Gemm or Conv of "
            f"float32 with constant weights that a kernel for {target.arch} computes so"
        )


@dataclass(frozen=True)
class FloatProduct:
    """A product of `m` rows with a constant matrix, float32 [n, k], and its bias, float32 [n].

    windows: attributes of the operation Windows that makes the rows of an image; None for a Gemm.
    """

    m: int
    matrix: np.ndarray
    bias: np.ndarray | None
    windows: Mapping[str, Any] | None

    @property
    def is_convolution(self) -> bool:
        """Whether its rows overlap, or are not the pixels of the image in their order."""
        if self.windows is None:
            return False
        sizes = (*self.windows["window"], *self.windows["strides"])
        return any(self.windows["pads"]) or any(size != 1 for size in sizes)

    def workload(self, setting: Setting) -> ResidualGemm:
        """What computes it as a product under a setting."""
        n, k = self.matrix.shape
        return ResidualGemm(
            self.m, n, k, setting.bits, setting.correction, "nk", True, self.bias is not None
        )

    def operations(
        self, graph: Graph, node: Operation, workload: ResidualGemm, setting: Setting
    ) -> list[Operation]:
        """The product in the place of a Gemm or Conv, with what makes its rows."""
        constants = {"b": self.matrix, **setting.constants}
        if self.bias is not None:
            constants["bias"] = self.bias
        attributes = {"workload": workload, "constants": constants, "precision": str(setting)}
        x, before = node.inputs[0], []
        if self.windows is not None:
            attributes["layout"] = NHWC
        if self.is_convolution:
            shape = infer_shape("Windows", [graph.shape(x)], self.windows or {})
            rows = add_tensor(graph, f"{node.output}/windows", shape, "float32")
            before = [Operation("Windows", node.name, (x,), rows, dict(self.windows or {}))]
            x = rows
        made = Operation(WORKLOAD, node.name, (x,), node.output, attributes, node.covers)
        return [*before, made]


def float_product(around: Neighbourhood, node: Operation, bits: int) -> FloatProduct | None:
    """A Gemm or Conv of float32 with constants, None for any other operation."""
    graph, a = around.graph, node.attributes
    if node.op not in ("Conv", "Gemm") or "floats" in a or a.get("groups", 1) != 1:
        return None
    weight = graph.constants.get(node.inputs[1])
    bias = around.constant(node.inputs[2]) if len(node.inputs) > 2 else None
    constant = bias is not None or len(node.inputs) < 3
    if weight is None or not constant or graph.dtype(node.inputs[0]) != "float32":
        return None
    matrix = weight if node.op == "Gemm" else weight.transpose(0, 2, 3, 1)
    matrix = np.ascontiguousarray(matrix.reshape(len(weight), -1), np.float32)
    if matrix.shape[1] > longest_sum(bits):
        return None
    if bias is not None:
        bias = np.ascontiguousarray(np.broadcast_to(bias.reshape(-1), len(weight)), np.float32)
    n, *_ = shape = graph.shape(node.output)
    windows = None
    if node.op == "Conv":
        names = ("strides", "dilations", "pads")
        windows = {"axis": 1, "window": weight.shape[2:], **{name: a[name] for name in names}}
    return FloatProduct(n * math.prod(shape[2:]), matrix, bias, windows)
