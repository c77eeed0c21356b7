"""MLP-Mixer with random weights.

Structure: Tolstikhin et al., "MLP-Mixer: An all-MLP Architecture for Vision", figure 1 and table 1;
layer normalisation and GELU are spelled out as torch's exporter does.
"""

from __future__ import annotations

import numpy as np
import onnx

from autoq.models.token_writer import TokenWriter

_PATCH = 16


def mlp_mixer(
    layers: int = 8, width: int = 512, hidden: tuple[int, int] = (256, 2048), image: int = 224,
    seed: int = 0, batch: int = 1, classes: int = 1000,
) -> onnx.ModelProto:  # fmt: skip
    """A float32 MLP-Mixer, S/16 by default: `input [batch, 3, image, image]`, `output [batch,
    classes]`.

    hidden are the widths of the perceptrons across tokens and across channels; image is a multiple
    of 16. Weights are normal numbers of `seed`, scaled so that activations keep their range.
    """
    writer = TokenWriter(np.random.default_rng(seed))
    side = image // _PATCH
    tokens = side * side
    shape = (_PATCH, _PATCH)
    weight = writer.weight((width, 3, *shape), 3 * _PATCH**2, "stem.weight", gain=1.0)
    bias = writer.constant(writer.rng.normal(0, 0.1, width).astype(np.float32), "stem.bias")
    x = writer.node("Conv", ["input", weight, bias], "stem", kernel_shape=shape, strides=shape)
    x = writer.node("Reshape", [x, writer.integers([batch, width, tokens], "flat")], "patches")
    x = writer.node("Transpose", [x], "tokens", perm=[0, 2, 1])
    for layer in range(layers):
        name = f"block{layer}"
        y = writer.layer_norm(x, width, f"{name}.norm1")
        y = writer.node("Transpose", [y], f"{name}.to_channels", perm=[0, 2, 1])
        y = _perceptron(writer, y, tokens, hidden[0], f"{name}.tokens")
        y = writer.node("Transpose", [y], f"{name}.to_tokens", perm=[0, 2, 1])
        x = writer.node("Add", [x, y], f"{name}.add1")
        y = writer.layer_norm(x, width, f"{name}.norm2")
        y = _perceptron(writer, y, width, hidden[1], f"{name}.channels")
        x = writer.node("Add", [x, y], f"{name}.add2")
    x = writer.layer_norm(x, width, "norm")
    x = writer.node("ReduceMean", [x], "mean", axes=[1], keepdims=0)
    y = writer.linear(x, width, classes, "head")
    return writer.tokens_model("mlp_mixer", y, (batch, 3, image, image), (batch, classes))


def _perceptron(writer: TokenWriter, x: str, width: int, hidden: int, name: str) -> str:
    y = writer.gelu(writer.linear(x, width, hidden, f"{name}.expand"), f"{name}.gelu")
    return writer.linear(y, hidden, width, f"{name}.contract")
