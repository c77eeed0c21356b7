"""BERT's encoder layers with random weights.

Structure: Devlin, Chang, Lee and Toutanova, "BERT: Pre-training of Deep Bidirectional Transformers
for Language Understanding", and Vaswani et al., "Attention Is All You Need", figures 1 and 2, with
layer normalisation and GELU spelled out as torch's exporter does.
"""

from __future__ import annotations

import numpy as np
import onnx

from autoq.models.token_writer import TokenWriter


def bert(
    layers: int = 1, length: int = 128, width: int = 768, heads: int = 12, seed: int = 0,
    batch: int = 1,
) -> onnx.ModelProto:  # fmt: skip
    """Float32 encoder layers: `input` and `output` are `[batch, length, width]` embeddings.

    heads divides width. Weights are normal numbers of `seed`, scaled so that activations keep
    their range with depth.
    """
    writer = TokenWriter(np.random.default_rng(seed))
    x = "input"
    for layer in range(layers):
        name = f"layer{layer}"
        attended = writer.attention(x, (batch, length, width), heads, f"{name}.attention")
        x = writer.layer_norm(
            writer.node("Add", [attended, x], f"{name}.attention.add"), width, f"{name}.norm1"
        )
        y = writer.linear(x, width, 4 * width, f"{name}.expand")
        y = writer.linear(writer.gelu(y, f"{name}.gelu"), 4 * width, width, f"{name}.contract")
        x = writer.layer_norm(writer.node("Add", [y, x], f"{name}.add"), width, f"{name}.norm2")
    return writer.tokens_model("bert", x, (batch, length, width), (batch, length, width))
