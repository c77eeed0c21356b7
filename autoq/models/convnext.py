"""ConvNeXt with random weights.

Structure: Liu et al., "A ConvNet for the 2020s", figure 4 and table 9, in torchvision's form; layer
normalisation and GELU are spelled out as torch's exporter does.
"""

from __future__ import annotations

import numpy as np
import onnx

from autoq.models.token_writer import TokenWriter

_TO_LAST, _TO_FIRST = [0, 2, 3, 1], [0, 3, 1, 2]


def convnext(
    depths: tuple[int, ...] = (3, 3, 9, 3), widths: tuple[int, ...] = (96, 192, 384, 768),
    image: int = 224, batch: int = 1, seed: int = 0, classes: int = 1000,
) -> onnx.ModelProto:  # fmt: skip
    """A float32 ConvNeXt, Tiny by default: `input [batch, 3, image, image]`, `output [batch,
    classes]`.

    image is a multiple of 32. Weights are normal numbers of `seed`, scaled so that activations
    keep their range with depth.
    """
    writer = TokenWriter(np.random.default_rng(seed))
    x = _reduced(writer, "input", 3, widths[0], 4, "stem")
    x = _normalised(writer, x, widths[0], "stem.norm")
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        name = f"stage{stage}"
        if stage:
            x = _normalised(writer, x, widths[stage - 1], f"{name}.norm")
            x = _reduced(writer, x, widths[stage - 1], width, 2, f"{name}.reduce")
        for block in range(depth):
            x = _block(writer, x, width, f"{name}.{block}")
    x = writer.node("GlobalAveragePool", [x], "avgpool")
    x = writer.node("Flatten", [x], "flatten", axis=1)
    x = writer.layer_norm(x, widths[-1], "norm")
    y = writer.linear(x, widths[-1], classes, "head")
    return writer.tokens_model("convnext", y, (batch, 3, image, image), (batch, classes))


def _block(writer: TokenWriter, x: str, width: int, name: str) -> str:
    """Depthwise 7x7, then normalisation and a perceptron over channels, scaled, and a residual."""
    y = writer.conv(x, width, width, 7, name=f"{name}.depthwise", gain=1.0, groups=width)
    y = writer.node("Transpose", [y], f"{name}.to_last", perm=_TO_LAST)
    y = writer.layer_norm(y, width, f"{name}.norm")
    y = writer.linear(y, width, 4 * width, f"{name}.expand")
    y = writer.linear(writer.gelu(y, f"{name}.gelu"), 4 * width, width, f"{name}.contract")
    y = writer.node("Transpose", [y], f"{name}.to_first", perm=_TO_FIRST)
    factor = writer.rng.uniform(0.5, 1.0, (width, 1, 1)).astype(np.float32)
    y = writer.node("Mul", [writer.constant(factor, f"{name}.factor"), y], f"{name}.scaled")
    return writer.node("Add", [y, x], f"{name}.add")


def _normalised(writer: TokenWriter, x: str, width: int, name: str) -> str:
    """Layer normalisation of the channels of each pixel."""
    x = writer.node("Transpose", [x], f"{name}.to_last", perm=_TO_LAST)
    x = writer.layer_norm(x, width, name)
    return writer.node("Transpose", [x], f"{name}.to_first", perm=_TO_FIRST)


def _reduced(writer: TokenWriter, x: str, c: int, k: int, size: int, name: str) -> str:
    """Convolution by filters that do not overlap, of c to k channels."""
    weight = writer.weight((k, c, size, size), c * size * size, f"{name}.weight", gain=1.0)
    bias = writer.constant(writer.rng.normal(0, 0.1, k).astype(np.float32), f"{name}.bias")
    return writer.node(
        "Conv", [x, weight, bias], name, kernel_shape=[size, size], strides=[size, size]
    )
