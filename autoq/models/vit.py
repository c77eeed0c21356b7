"""Vision transformers with random weights.

Structure: Dosovitskiy et al., "An Image Is Worth 16x16 Words: Transformers for Image Recognition at
Scale", figure 1 and table 1; layer normalisation and GELU are spelled out as torch's exporter does.
"""

from __future__ import annotations

import numpy as np
import onnx

from autoq.models.token_writer import TokenWriter


def vit(
    layers: int = 12, width: int = 768, heads: int = 12, patch: int = 16, image: int = 224,
    seed: int = 0, batch: int = 1, classes: int = 1000,
) -> onnx.ModelProto:  # fmt: skip
    """A float32 ViT, B/16 by default: `input [batch, 3, image, image]`, `output [batch, classes]`.

    patch divides image, heads divides width. Weights are normal numbers of `seed`, scaled so that
    activations keep their range with depth.
    """
    writer = TokenWriter(np.random.default_rng(seed))
    patches = (image // patch) ** 2
    shape, size = (batch, patches + 1, width), [patch, patch]
    weight = writer.weight((width, 3, *size), 3 * patch**2, "stem.weight", gain=1.0)
    bias = writer.constant(writer.rng.normal(0, 0.1, width).astype(np.float32), "stem.bias")
    x = writer.node("Conv", ["input", weight, bias], "stem", kernel_shape=size, strides=size)
    x = writer.node("Reshape", [x, writer.integers([batch, width, patches], "flat")], "patches")
    x = writer.node("Transpose", [x], "tokens", perm=[0, 2, 1])
    marks = writer.rng.standard_normal((batch, 1, width), np.float32)
    x = writer.node("Concat", [writer.constant(marks, "class"), x], "with_class", axis=1)
    places = writer.rng.normal(0, 0.1, (1, *shape[1:])).astype(np.float32)
    x = writer.node("Add", [x, writer.constant(places, "places")], "placed")
    for layer in range(layers):
        name = f"block{layer}"
        y = writer.layer_norm(x, width, f"{name}.norm1")
        y = writer.attention(y, shape, heads, f"{name}.attention")
        x = writer.node("Add", [x, y], f"{name}.add1")
        y = writer.linear(writer.layer_norm(x, width, f"{name}.norm2"), width, 4 * width,
                          f"{name}.expand")  # fmt: skip
        y = writer.linear(writer.gelu(y, f"{name}.gelu"), 4 * width, width, f"{name}.contract")
        x = writer.node("Add", [x, y], f"{name}.add2")
    first = writer.constant(np.array(0, np.int64), "first")
    y = writer.node("Gather", [writer.layer_norm(x, width, "norm"), first], "picked", axis=1)
    y = writer.linear(y, width, classes, "head")
    return writer.tokens_model("vit", y, (batch, 3, image, image), (batch, classes))
