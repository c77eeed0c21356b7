"""EfficientNet-B0 with random weights.

Structure: Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks",
table 1, in torchvision's form; batch normalisation is already folded.
"""

from __future__ import annotations

import numpy as np
import onnx

from autoq.models.inverted_residuals import Block, Stage, blocks
from autoq.models.writer import ModelWriter

_STAGES = (
    Stage(1, 3, 1, 16, 1),
    Stage(6, 3, 2, 24, 2),
    Stage(6, 5, 2, 40, 2),
    Stage(6, 3, 2, 80, 3),
    Stage(6, 5, 1, 112, 3),
    Stage(6, 5, 2, 192, 4),
    Stage(6, 3, 1, 320, 1),
)
_STEM, _HEAD = 32, 1280
_SQUEEZE = 4
"""Channels of a block's input to one of its squeezed vector."""
_GAIN = 1.2
"""Variance of what goes into an activation, for inputs of variance 1."""
_SILU_GAIN = 2.8
"""One over the mean square of x * sigmoid(x) for a normal x of variance 1."""
_GATE_GAIN = 4.0
"""One over the square of sigmoid(0), which gates of random weights lie around."""


def efficientnet_b0(
    image: int = 224, batch: int = 1, seed: int = 0, classes: int = 1000
) -> onnx.ModelProto:
    """A float32 EfficientNet-B0: `input [batch, 3, image, image]`, `output [batch, classes]`.

    Weights are normal numbers of `seed`, scaled so that the variance of activations stays near 1.
    """
    writer = ModelWriter(np.random.default_rng(seed))
    x = writer.conv("input", 3, _STEM, 3, 2, "stem", gain=1.0)
    x = _silu(writer, x, "stem")
    for block in blocks(_STAGES, _STEM):
        x = _block(writer, x, block)
    x = writer.conv(x, _STAGES[-1].channels, _HEAD, 1, name="head", gain=_GAIN)
    x = _silu(writer, x, "head")
    writer.classifier(x, _HEAD, classes)
    return writer.model("efficientnet_b0", batch, image, classes)


def _silu(writer: ModelWriter, x: str, name: str) -> str:
    gate = writer.node("Sigmoid", [x], f"{name}.sigmoid")
    return writer.node("Mul", [x, gate], f"{name}.silu")


def _block(writer: ModelWriter, x: str, block: Block) -> str:
    """A mobile inverted bottleneck: expand, filter each channel, squeeze and excite, project."""
    name, c, k, wide, size, stride = block
    y, gain = x, _GAIN
    if wide > c:
        y = writer.conv(y, c, wide, 1, name=f"{name}.expand", gain=_GAIN)
        y, gain = _silu(writer, y, f"{name}.expand"), _SILU_GAIN
    y = writer.conv(y, wide, wide, size, stride, f"{name}.depthwise", gain=gain, groups=wide)
    y = _silu(writer, y, f"{name}.depthwise")
    y = _gated(writer, y, wide, c // _SQUEEZE, name)
    gain = _SILU_GAIN * _GATE_GAIN * block.variance
    y = writer.conv(y, wide, k, 1, name=f"{name}.project", gain=gain)
    return writer.node("Add", [y, x], f"{name}.add") if block.has_shortcut else y


def _gated(writer: ModelWriter, x: str, channels: int, squeezed: int, name: str) -> str:
    """Squeeze and excitation: each channel times a gate computed from all channels' means."""
    gate = writer.node("GlobalAveragePool", [x], f"{name}.squeeze")
    gate = writer.conv(gate, channels, squeezed, 1, name=f"{name}.reduce")
    gate = _silu(writer, gate, f"{name}.reduce")
    gate = writer.conv(gate, squeezed, channels, 1, name=f"{name}.excite")
    gate = writer.node("Sigmoid", [gate], f"{name}.gate")
    return writer.node("Mul", [x, gate], f"{name}.gated")
