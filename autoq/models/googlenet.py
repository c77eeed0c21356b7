"""GoogLeNet with random weights.

Structure: Szegedy et al., "Going Deeper with Convolutions", table 1, with 3x3 filters for the 5x5
ones as torchvision has it; batch normalisation is already folded.
"""

from __future__ import annotations

import numpy as np
import onnx

from autoq.models.writer import ModelWriter

_INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
"""Channels of the four branches: 1x1; 1x1 then 3x3; 1x1 then 3x3; 1x1 behind a pooling."""
_POOLED_AFTER = {"3b": 3, "4e": 2}
"""Sides of the poolings of stride 2 between the stages."""


def googlenet(
    image: int = 224, batch: int = 1, seed: int = 0, classes: int = 1000
) -> onnx.ModelProto:
    """A float32 GoogLeNet: `input [batch, 3, image, image]`, `output [batch, classes]`.

    Weights are He-scaled normal numbers of `seed`; there are no auxiliary classifiers.
    """
    writer = ModelWriter(np.random.default_rng(seed))
    x = writer.conv_relu("input", 3, 64, 7, stride=2, name="conv1")
    x = _halved(writer, x, 3, "pool1")
    x = writer.conv_relu(x, 64, 64, 1, name="conv2")
    x = writer.conv_relu(x, 64, 192, 3, name="conv3")
    x = _halved(writer, x, 3, "pool2")
    channels = 192
    for name, branches in _INCEPTIONS.items():
        x = _inception(writer, x, channels, branches, f"inception{name}")
        channels = branches[0] + branches[2] + branches[4] + branches[5]
        if name in _POOLED_AFTER:
            x = _halved(writer, x, _POOLED_AFTER[name], f"pool{name}")
    writer.classifier(x, channels, classes)
    return writer.model("googlenet", batch, image, classes)


def _halved(writer: ModelWriter, x: str, size: int, name: str) -> str:
    """A pooling of stride 2 that gives half the pixels a side."""
    sizes = {"kernel_shape": [size, size], "strides": [2, 2], "pads": [(size - 1) // 2] * 4}
    return writer.node("MaxPool", [x], name, **sizes)


def _inception(
    writer: ModelWriter, x: str, c: int, branches: tuple[int, int, int, int, int, int], name: str
) -> str:
    first, reduced, wide, narrowed, small, pooled = branches
    one = writer.conv_relu(x, c, first, 1, name=f"{name}.1")
    two = writer.conv_relu(x, c, reduced, 1, name=f"{name}.2.reduce")
    two = writer.conv_relu(two, reduced, wide, 3, name=f"{name}.2")
    three = writer.conv_relu(x, c, narrowed, 1, name=f"{name}.3.reduce")
    three = writer.conv_relu(three, narrowed, small, 3, name=f"{name}.3")
    sizes = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1] * 4}
    four = writer.node("MaxPool", [x], f"{name}.4.pool", **sizes)
    four = writer.conv_relu(four, c, pooled, 1, name=f"{name}.4")
    return writer.node("Concat", [one, two, three, four], f"{name}.concat", axis=1)
