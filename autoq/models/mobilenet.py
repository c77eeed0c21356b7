"""MobileNet-V2 with random weights.

Structure: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", table 2; batch
normalisation is already folded.
"""

from __future__ import annotations

import numpy as np
import onnx

from autoq.models.inverted_residuals import Block, Stage, blocks
from autoq.models.writer import ModelWriter

_STAGES = (
    Stage(1, 3, 1, 16, 1),
    Stage(6, 3, 2, 24, 2),
    Stage(6, 3, 2, 32, 3),
    Stage(6, 3, 2, 64, 4),
    Stage(6, 3, 1, 96, 3),
    Stage(6, 3, 2, 160, 3),
    Stage(6, 3, 1, 320, 1),
)
_STEM, _HEAD = 32, 1280


def mobilenet_v2(
    image: int = 224, batch: int = 1, seed: int = 0, classes: int = 1000
) -> onnx.ModelProto:
    """A float32 MobileNet-V2: `input [batch, 3, image, image]`, `output [batch, classes]`.

    Weights are normal numbers of `seed`, scaled so that the variance of activations stays near 1.
    """
    writer = ModelWriter(np.random.default_rng(seed))
    writer.constant(np.array(0, np.float32), "zero")
    writer.constant(np.array(6, np.float32), "six")
    x = _clipped(writer, writer.conv("input", 3, _STEM, 3, 2, "stem"), "stem")
    for block in blocks(_STAGES, _STEM):
        x = _block(writer, x, block)
    x = _clipped(writer, writer.conv(x, _STAGES[-1].channels, _HEAD, 1, name="head"), "head")
    writer.classifier(x, _HEAD, classes)
    return writer.model("mobilenet_v2", batch, image, classes)


def _clipped(writer: ModelWriter, x: str, name: str) -> str:
    return writer.node("Clip", [x, "zero", "six"], f"{name}.relu6")


def _block(writer: ModelWriter, x: str, block: Block) -> str:
    """An inverted residual: expand, filter each channel, project without an activation."""
    name, c, k, wide, size, stride = block
    y = x
    if wide > c:
        y = writer.conv(y, c, wide, 1, name=f"{name}.expand", gain=1.0)
        y = _clipped(writer, y, f"{name}.expand")
    y = writer.conv(y, wide, wide, size, stride, f"{name}.depthwise", groups=wide)
    y = _clipped(writer, y, f"{name}.depthwise")
    y = writer.conv(y, wide, k, 1, name=f"{name}.project", gain=2 * block.variance)
    return writer.node("Add", [y, x], f"{name}.add") if block.has_shortcut else y
