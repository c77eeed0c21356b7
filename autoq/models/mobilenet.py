"""MobileNet-V2 with random weights.

Structure: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", table 2; batch
normalisation is already folded.
"""

from __future__ import annotations

import numpy as np
import onnx

from autoq.models.writer import ModelWriter

_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, output channels, blocks and stride of each stage."""
_STEM, _HEAD = 32, 1280
_RESIDUAL = 0.3
"""Variance that a block adds to its shortcut, so that activations keep their range with depth."""


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
    channels = _STEM
    for stage, (expansion, k, blocks, stride) in enumerate(_STAGES):
        for block in range(blocks):
            step, name = (stride if block == 0 else 1), f"stage{stage + 1}.{block}"
            x = _block(writer, x, channels, k, expansion, step, name)
            channels = k
    x = _clipped(writer, writer.conv(x, channels, _HEAD, 1, name="head"), "head")
    writer.classifier(x, _HEAD, classes)
    return writer.model("mobilenet_v2", batch, image, classes)


def _clipped(writer: ModelWriter, x: str, name: str) -> str:
    return writer.node("Clip", [x, "zero", "six"], f"{name}.relu6")


def _block(
    writer: ModelWriter, x: str, c: int, k: int, expansion: int, stride: int, name: str
) -> str:
    """An inverted residual: expand, filter each channel, project without an activation."""
    wide, y = c * expansion, x
    if expansion > 1:
        y = writer.conv(y, c, wide, 1, name=f"{name}.expand", gain=1.0)
        y = _clipped(writer, y, f"{name}.expand")
    y = writer.conv(y, wide, wide, 3, stride, f"{name}.depthwise", groups=wide)
    y = _clipped(writer, y, f"{name}.depthwise")
    shortcut = stride == 1 and c == k
    y = writer.conv(y, wide, k, 1, name=f"{name}.project", gain=2 * (_RESIDUAL if shortcut else 1))
    return writer.node("Add", [y, x], f"{name}.add") if shortcut else y
