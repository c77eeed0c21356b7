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
from autoq.graph.precision import Precision
from autoq.graph.rewrite import Neighbourhood, add_tensor, prune
from autoq.graph.shapes import infer_shape
from autoq.residual.crossover import default_crossover
from autoq.residual.setting import Setting
from autoq.templates.base import Template
from autoq.templates.layout import NHWC
from autoq.templates.operators.residual_gemm import ResidualGemm, longest_sum
from autoq.templates.registry import matching
from autoq.templates.target import Target


def residual_products(
    graph: Graph, target: Target, templates: Sequence[Template], precision: Precision
) -> None:
    """Replace each Gemm and Conv of float32 with constant weights that a template computes so.

    A convolution of one group becomes the product of its windows, a row for each pixel of the
    output, whose scale is its own. The convolution templates would need one scale for the whole
    tensor, and could not gather the values that matter. Windows of more than one pixel are written
    to memory, as many floats as the product has in its left matrix.

    Raises InputError for a model without such a layer.
    """
    around = Neighbourhood(graph)
    setting = precision.setting(default_crossover(target))
    nodes: list[Node] = []
    replaced = 0
    for node in graph.operations:
        product = _product(around, node, setting.bits)
        workload = None if product is None else product.workload(setting)
        if product is None or not matching(workload, target, templates):
            nodes.append(node)
            continue
        nodes += product.operations(graph, node, workload, setting)
        replaced += 1
    graph.nodes = nodes
    prune(graph)
    if not replaced:
        raise InputError(
            f"precision {precision.name}: the model {graph.name!r} has no MatMul, Gemm or Conv of "
            f"float32 with constant weights that a kernel for {target.arch} computes so"
        )


@dataclass(frozen=True)
class _Product:
    """A product of `m` rows with a constant matrix, float32 [n, k], and its bias, float32 [n].

    windows: attributes of the operation Windows that makes the rows of an image; None for a Gemm.
    """

    m: int
    matrix: np.ndarray
    bias: np.ndarray | None
    windows: Mapping[str, Any] | None

    def workload(self, setting: Setting) -> ResidualGemm:
        """What computes it under a setting."""
        n, k = self.matrix.shape
        return ResidualGemm(
            self.m, n, k, setting.bits, setting.correction, "nk", True, self.bias is not None
        )

    def operations(
        self, graph: Graph, node: Operation, workload: ResidualGemm, setting: Setting
    ) -> list[Operation]:
        """What computes a Gemm or Conv operation."""
        constants = {"b": self.matrix, **setting.constants}
        if self.bias is not None:
            constants["bias"] = self.bias
        attributes = {"workload": workload, "constants": constants, "precision": str(setting)}
        x, before = node.inputs[0], []
        if self.windows is not None:
            attributes["layout"] = NHWC
            if not _is_pixel(self.windows):
                shape = infer_shape("Windows", [graph.shape(x)], self.windows)
                rows = add_tensor(graph, f"{node.output}/windows", shape, "float32")
                before = [Operation("Windows", node.name, (x,), rows, dict(self.windows))]
                x = rows
        return [
            *before,
            Operation(WORKLOAD, node.name, (x,), node.output, attributes, node.covers),
        ]


def _product(around: Neighbourhood, node: Operation, bits: int) -> _Product | None:
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
    return _Product(n * math.prod(shape[2:]), matrix, bias, windows)


def _is_pixel(windows: Mapping[str, Any]) -> bool:
    """Whether every window is one pixel, and every pixel a window, in their order."""
    ones = (*windows["window"], *windows["strides"])
    return not any(windows["pads"]) and all(size == 1 for size in ones)
