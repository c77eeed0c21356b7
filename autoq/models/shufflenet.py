"""ShuffleNet-V2 x1.0 with random weights.

Structure: Ma, Zhang, Zheng and Sun, "ShuffleNet V2: Practical Guidelines for Efficient CNN
Architecture Design", figure 3 and table 5, in torchvision's form; batch normalisation is already
folded.
"""

from __future__ import annotations

import numpy as np
import onnx

from autoq.models.writer import ModelWriter

_STEM, _HEAD = 24, 1024
_STAGES = ((116, 4), (232, 8), (464, 4))
"""Channels and units of each stage; the first unit halves the image."""


def shufflenet_v2(
    image: int = 224, batch: int = 1, seed: int = 0, classes: int = 1000
) -> onnx.ModelProto:
    """A float32 ShuffleNet-V2: `input [batch, 3, image, image]`, `output [batch, classes]`.

    image is a multiple of 32. Weights are normal numbers of `seed`, scaled so that activations
    keep their range with depth.
    """
    writer = ModelWriter(np.random.default_rng(seed))
    x = writer.conv_relu("input", 3, _STEM, 3, 2, "stem")
    x = writer.node("MaxPool", [x], "maxpool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels, size = _STEM, image // 4
    for stage, (k, units) in enumerate(_STAGES):
        size //= 2
        for unit in range(units):
            name = f"stage{stage + 2}.{unit}"
            x = _unit(writer, x, channels, k, unit == 0, name)
            x = _shuffled(writer, x, (k, size, size), name)
            channels = k
    x = writer.conv_relu(x, channels, _HEAD, 1, name="head")
    writer.classifier(x, _HEAD, classes)
    return writer.model("shufflenet_v2", batch, image, classes)


def _unit(writer: ModelWriter, x: str, c: int, k: int, first: bool, name: str) -> str:
    """Both branches side by side; but for the first unit, one of them is half of the input."""
    half = k // 2
    if first:
        left = writer.conv(x, c, c, 3, 2, f"{name}.left.depthwise", groups=c)
        left = writer.conv_relu(left, c, half, 1, name=f"{name}.left.project", gain=1.0)
        return writer.node("Concat", [left, _branch(writer, x, c, half, 2, name)], f"{name}.concat",
                           axis=1)  # fmt: skip
    left, right = f"{name}.split/left", f"{name}.split/right"
    sizes = writer.constant(np.array([half, half], np.int64), f"{name}.split.sizes")
    writer.nodes.append(
        onnx.helper.make_node("Split", [x, sizes], [left, right], name=f"{name}.split", axis=1)
    )
    right = _branch(writer, right, half, half, 1, name)
    return writer.node("Concat", [left, right], f"{name}.concat", axis=1)


def _branch(writer: ModelWriter, x: str, c: int, k: int, stride: int, name: str) -> str:
    x = writer.conv_relu(x, c, k, 1, name=f"{name}.expand")
    x = writer.conv(x, k, k, 3, stride, f"{name}.depthwise", groups=k)
    return writer.conv_relu(x, k, k, 1, name=f"{name}.project", gain=1.0)


def _shuffled(writer: ModelWriter, x: str, shape: tuple[int, int, int], name: str) -> str:
    """Channels of the two halves in turn."""
    c, h, w = shape
    apart = writer.constant(np.array([-1, 2, c // 2, h, w], np.int64), f"{name}.apart")
    whole = writer.constant(np.array([-1, c, h, w], np.int64), f"{name}.whole")
    x = writer.node("Reshape", [x, apart], f"{name}.groups")
    x = writer.node("Transpose", [x], f"{name}.transpose", perm=[0, 2, 1, 3, 4])
    return writer.node("Reshape", [x, whole], f"{name}.shuffle")
