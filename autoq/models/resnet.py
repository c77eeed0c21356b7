"""Residual networks with random weights, for the quick start, benchmarks and tests.

Structure: He et al., "Deep Residual Learning for Image Recognition", in torchvision's v1.5 form
(the stride sits in the 3x3 convolution); batch normalisation is already folded.
"""

from __future__ import annotations

import numpy as np
import onnx

from autoq.errors import InputError
from autoq.models.writer import ModelWriter

_STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}


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
    writer = ModelWriter(np.random.default_rng(seed))
    x = writer.conv_relu("input", 3, 64, 7, stride=2, name="conv1")
    x = writer.node("MaxPool", [x], "maxpool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels, bottleneck = 64, depth >= 50
    for stage, blocks in enumerate(_STAGES[depth]):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            name = f"layer{stage + 1}.{block}"
            x = _block(writer, x, channels, width, stride, bottleneck, name)
            channels = width * (4 if bottleneck else 1)
    writer.classifier(x, channels, classes)
    return writer.model(f"resnet{depth}", batch, image, classes)


def _block(
    writer: ModelWriter, x: str, c: int, width: int, stride: int, bottleneck: bool, name: str
) -> str:
    """A basic or bottleneck block with its shortcut."""
    k = width * (4 if bottleneck else 1)
    if bottleneck:
        y = writer.conv_relu(x, c, width, 1, name=f"{name}.conv1")
        y = writer.conv_relu(y, width, width, 3, stride, name=f"{name}.conv2")
        y = writer.conv(y, width, k, 1, name=f"{name}.conv3", gain=0.3)
    else:
        y = writer.conv_relu(x, c, width, 3, stride, name=f"{name}.conv1")
        y = writer.conv(y, width, k, 3, name=f"{name}.conv2", gain=0.3)
    if stride != 1 or c != k:
        x = writer.conv(x, c, k, 1, stride, name=f"{name}.downsample", gain=1.0)
    y = writer.node("Add", [y, x], f"{name}.add")
    return writer.node("Relu", [y], f"{name}.relu")
