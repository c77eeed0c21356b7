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
    batch: int = 1, vocabulary: int | None = None,
) -> onnx.ModelProto:  # fmt: skip
    """Float32 encoder layers; `output` are `[batch, length, width]` embeddings.

    So is `input`, or int64 tokens `[batch, length]` below `vocabulary`, which are looked up, placed
    and normalised first. heads divides width. Weights are normal numbers of `seed`, scaled so that
    activations keep their range with depth.
    """
    writer = TokenWriter(np.random.default_rng(seed))
    x = "input" if vocabulary is None else _embedded(writer, vocabulary, length, width)
    for layer in range(layers):
        name = f"layer{layer}"
        attended = writer.attention(x, (batch, length, width), heads, f"{name}.attention")
        x = writer.layer_norm(
            writer.node("Add", [attended, x], f"{name}.attention.add"), width, f"{name}.norm1"
        )
        y = writer.linear(x, width, 4 * width, f"{name}.expand")
        y = writer.linear(writer.gelu(y, f"{name}.gelu"), 4 * width, width, f"{name}.contract")
        x = writer.layer_norm(writer.node("Add", [y, x], f"{name}.add"), width, f"{name}.norm2")
    shape = (batch, length, width)
    return writer.tokens_model(
        "bert", x, shape[:2] if vocabulary else shape, shape, tokens=vocabulary is not None
    )


def _embedded(writer: TokenWriter, vocabulary: int, length: int, width: int) -> str:
    """Normalised sums of the embeddings of tokens and of their places."""
    words = writer.rng.standard_normal((vocabulary, width), np.float32)
    places = writer.rng.normal(0, 0.1, (1, length, width)).astype(np.float32)
    x = writer.node("Gather", [writer.constant(words, "words"), "input"], "embedded", axis=0)
    x = writer.node("Add", [x, writer.constant(places, "places")], "placed")
    return writer.layer_norm(x, width, "embedded.norm")
