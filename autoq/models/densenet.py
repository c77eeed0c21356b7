"""DenseNet with random weights.

Structure: Huang, Liu, van der Maaten and Weinberger, "Densely Connected Convolutional Networks",
table 1, in torchvision's form. Its batch normalisations stand before their convolutions, so that
those behind a concatenation cannot be folded into a convolution before them.
"""

from __future__ import annotations

import numpy as np
import onnx

from autoq.models.writer import ModelWriter

_BOTTLENECK = 4
"""Channels between a layer's two convolutions, in units of the growth."""


def densenet(
    depths: tuple[int, ...] = (6, 12, 24, 16), growth: int = 32, stem: int = 64, image: int = 224,
    batch: int = 1, seed: int = 0, classes: int = 1000,
) -> onnx.ModelProto:  # fmt: skip
    """A float32 DenseNet, 121 by default: `input [batch, 3, image, image]`, `output [batch,
    classes]`.

    image is a multiple of 32. Weights are normal numbers of `seed`, scaled so that activations
    keep their range with depth.
    """
    writer = ModelWriter(np.random.default_rng(seed))
    x = writer.conv_relu("input", 3, stem, 7, 2, "stem")
    x = writer.node("MaxPool", [x], "maxpool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = stem
    for block, depth in enumerate(depths):
        if block:
            name = f"transition{block}"
            y = _normalised(writer, x, channels, name)
            x = writer.conv(y, channels, channels // 2, 1, name=f"{name}.conv", gain=2.0)
            x = writer.node("AveragePool", [x], f"{name}.pool", kernel_shape=[2, 2], strides=[2, 2])
            channels //= 2
        for layer in range(depth):
            name = f"block{block}.{layer}"
            y = _normalised(writer, x, channels, f"{name}.first")
            y = writer.conv_relu(y, channels, _BOTTLENECK * growth, 1, 1, f"{name}.bottleneck")
            y = writer.conv(y, _BOTTLENECK * growth, growth, 3, name=f"{name}.conv")
            x = writer.node("Concat", [x, y], f"{name}.concat", axis=1)
            channels += growth
    writer.classifier(_normalised(writer, x, channels, "last"), channels, classes)
    return writer.model("densenet", batch, image, classes)


def _normalised(writer: ModelWriter, x: str, channels: int, name: str) -> str:
    """Batch normalisation and a ReLU."""
    ranges = {"factor": (0.5, 1.5), "offset": (-0.2, 0.2), "mean": (-0.2, 0.2),
              "variance": (0.5, 1.5)}  # fmt: skip
    constants = [
        writer.constant(writer.rng.uniform(*bounds, channels).astype(np.float32), f"{name}.{kind}")
        for kind, bounds in ranges.items()
    ]
    y = writer.node("BatchNormalization", [x, *constants], f"{name}.norm")
    return writer.node("Relu", [y], f"{name}.relu")
