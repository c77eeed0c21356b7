"""Residual networks with random weights, for the quick start, benchmarks and tests.

Structure: He et al., "Deep Residual Learning for Image Recognition", in torchvision's v1.5 form
(the stride sits in the 3x3 convolution); batch normalisation is already folded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from autoq.errors import InputError

_STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
_OPSET = 17
_LOGIT_OFFSET = 3.0
"""Spread of the last bias. It widens the output's quantisation step: in a network of random weights
one flipped rounding spreads to a quarter of all outputs, by 0.3 steps each without it."""


def resnet(
    depth: int, image: int = 224, batch: int = 1, seed: int = 0, classes: int = 1000
) -> onnx.ModelProto:
    """A float32 ResNet: input `input [batch, 3, image, image]`, output `output [batch, classes]`.

    depth is 18, 34, 50 or 101. Weights are He-scaled normal numbers of `seed`; the last
    convolution of a block is scaled down, so that activations keep their range with depth.
    Raises InputError for another depth.
    """
    if depth not in _STAGES:
        raise InputError(f"resnet depth {depth}; depths are {', '.join(map(str, _STAGES))}")
    writer = _Writer(np.random.default_rng(seed))
    x = writer.conv("input", 3, 64, 7, stride=2, name="conv1")
    x = writer.node("MaxPool", [x], "maxpool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels, bottleneck = 64, depth >= 50
    for stage, blocks in enumerate(_STAGES[depth]):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            name = f"layer{stage + 1}.{block}"
            x = writer.block(x, channels, width, stride, bottleneck, name)
            channels = width * (4 if bottleneck else 1)
    x = writer.node("GlobalAveragePool", [x], "avgpool")
    x = writer.node("Flatten", [x], "flatten", axis=1)
    weight = writer.weight((classes, channels), channels, "fc.weight", gain=1.0)
    offsets = writer.rng.normal(0, _LOGIT_OFFSET, classes).astype(np.float32)
    bias = writer.constant(offsets, "fc.bias")
    writer.nodes.append(
        helper.make_node("Gemm", [x, weight, bias], ["output"], name="fc", transB=1)
    )
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        writer.nodes,
        f"resnet{depth}",
        [value("input", onnx.TensorProto.FLOAT, [batch, 3, image, image])],
        [value("output", onnx.TensorProto.FLOAT, [batch, classes])],
        writer.initializers,
    )
    opsets = [helper.make_opsetid("", _OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="autoq")


@dataclass
class _Writer:
    """Nodes and initializers under construction."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)

    def constant(self, array: np.ndarray, name: str) -> str:
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, shape: tuple[int, ...], fan_in: int, name: str, gain: float) -> str:
        array = self.rng.standard_normal(shape, np.float32) * np.float32((gain / fan_in) ** 0.5)
        return self.constant(array, name)

    def node(self, op: str, inputs: list[str], name: str, **attributes: Any) -> str:
        output = f"{name}/output"
        self.nodes.append(helper.make_node(op, inputs, [output], name=name, **attributes))
        return output

    def conv(
        self, x: str, c: int, k: int, size: int, stride: int = 1, name: str = "",
        relu: bool = True, gain: float = 2.0,
    ) -> str:  # fmt: skip
        """Convolution with a bias, "same" padding and an optional ReLU."""
        weight = self.weight((k, c, size, size), c * size * size, f"{name}.weight", gain)
        bias = self.constant(self.rng.normal(0, 0.1, k).astype(np.float32), f"{name}.bias")
        y = self.node(
            "Conv", [x, weight, bias], name,
            kernel_shape=[size, size], strides=[stride, stride], pads=[size // 2] * 4,
        )  # fmt: skip
        return self.node("Relu", [y], f"{name}.relu") if relu else y

    def block(self, x: str, c: int, width: int, stride: int, bottleneck: bool, name: str) -> str:
        """A basic or bottleneck block with its shortcut."""
        k = width * (4 if bottleneck else 1)
        if bottleneck:
            y = self.conv(x, c, width, 1, name=f"{name}.conv1")
            y = self.conv(y, width, width, 3, stride, name=f"{name}.conv2")
            y = self.conv(y, width, k, 1, name=f"{name}.conv3", relu=False, gain=0.3)
        else:
            y = self.conv(x, c, width, 3, stride, name=f"{name}.conv1")
            y = self.conv(y, width, k, 3, name=f"{name}.conv2", relu=False, gain=0.3)
        if stride != 1 or c != k:
            x = self.conv(x, c, k, 1, stride, name=f"{name}.downsample", relu=False, gain=1.0)
        y = self.node("Add", [y, x], f"{name}.add")
        return self.node("Relu", [y], f"{name}.relu")
