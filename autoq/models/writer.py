"""ONNX nodes and random weights of a network under construction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

_OPSET = 17
_LOGIT_OFFSET = 3.0
"""Spread of the last bias. It widens the output's quantisation step: in a network of random weights
one flipped rounding spreads to a quarter of all outputs, by 0.3 steps each without it."""


@dataclass
class ModelWriter:
    """Nodes and initializers under construction."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)

    def constant(self, array: np.ndarray, name: str) -> str:
        """An initializer; its name."""
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, shape: tuple[int, ...], fan_in: int, name: str, gain: float) -> str:
        """A float32 initializer of normal numbers with variance gain / fan_in; its name."""
        array = self.rng.standard_normal(shape, np.float32) * np.float32((gain / fan_in) ** 0.5)
        return self.constant(array, name)

    def node(self, op: str, inputs: list[str], name: str, **attributes: Any) -> str:
        """Append a node; the name of its output."""
        output = f"{name}/output"
        self.nodes.append(helper.make_node(op, inputs, [output], name=name, **attributes))
        return output

    def conv_relu(self, x: str, c: int, k: int, size: int, *place: Any, **options: Any) -> str:
        """A ReLU behind a `conv` of the same arguments."""
        y = self.conv(x, c, k, size, *place, **options)
        return self.node("Relu", [y], f"{y.removesuffix('/output')}.relu")

    def conv(
        self, x: str, c: int, k: int, size: int, stride: int = 1, name: str = "",
        gain: float = 2.0, groups: int = 1,
    ) -> str:  # fmt: skip
        """Convolution of c to k channels by size x size filters, with a bias and "same" padding."""
        shape = (k, c // groups, size, size)
        weight = self.weight(shape, c // groups * size * size, f"{name}.weight", gain)
        bias = self.constant(self.rng.normal(0, 0.1, k).astype(np.float32), f"{name}.bias")
        return self.node(
            "Conv", [x, weight, bias], name,
            kernel_shape=[size, size], strides=[stride, stride], pads=[size // 2] * 4,
            **({"group": groups} if groups > 1 else {}),
        )  # fmt: skip

    def classifier(self, x: str, channels: int, classes: int) -> None:
        """Global average, and a fully connected layer that writes `output`."""
        x = self.node("GlobalAveragePool", [x], "avgpool")
        x = self.node("Flatten", [x], "flatten", axis=1)
        weight = self.weight((classes, channels), channels, "fc.weight", gain=1.0)
        offsets = self.rng.normal(0, _LOGIT_OFFSET, classes).astype(np.float32)
        bias = self.constant(offsets, "fc.bias")
        self.nodes.append(
            helper.make_node("Gemm", [x, weight, bias], ["output"], name="fc", transB=1)
        )

    def model(self, name: str, batch: int, image: int, classes: int) -> onnx.ModelProto:
        """The model from `input [batch, 3, image, image]` to `output [batch, classes]`."""
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            name,
            [value("input", onnx.TensorProto.FLOAT, [batch, 3, image, image])],
            [value("output", onnx.TensorProto.FLOAT, [batch, classes])],
            self.initializers,
        )
        opsets = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="autoq")
