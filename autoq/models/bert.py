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
        attended = _attention(writer, x, (batch, length, width), heads, f"{name}.attention")
        x = writer.layer_norm(
            writer.node("Add", [attended, x], f"{name}.attention.add"), width, f"{name}.norm1"
        )
        y = writer.linear(x, width, 4 * width, f"{name}.expand")
        y = writer.linear(writer.gelu(y, f"{name}.gelu"), 4 * width, width, f"{name}.contract")
        x = writer.layer_norm(writer.node("Add", [y, x], f"{name}.add"), width, f"{name}.norm2")
    return writer.tokens_model("bert", x, (batch, length, width), (batch, length, width))


def _attention(
    writer: TokenWriter, x: str, shape: tuple[int, int, int], heads: int, name: str
) -> str:
    """Self-attention of all tokens, its output projected."""
    batch, length, width = shape
    each = width // heads
    split = writer.integers([batch, length, heads, each], f"{name}.split")

    def part(kind: str, order: list[int]) -> str:
        y = writer.linear(x, width, width, f"{name}.{kind}")
        y = writer.node("Reshape", [y, split], f"{name}.{kind}.heads")
        return writer.node("Transpose", [y], f"{name}.{kind}.transpose", perm=order)

    query, key = part("query", [0, 2, 1, 3]), part("key", [0, 2, 3, 1])
    scores = writer.node("MatMul", [query, key], f"{name}.scores")
    root = writer.constant(np.array(each**0.5, np.float32), f"{name}.root")
    scores = writer.node("Div", [scores, root], f"{name}.scaled")
    shares = writer.node("Softmax", [scores], f"{name}.softmax", axis=-1)
    y = writer.node("MatMul", [shares, part("value", [0, 2, 1, 3])], f"{name}.context")
    y = writer.node("Transpose", [y], f"{name}.context.transpose", perm=[0, 2, 1, 3])
    whole = writer.integers([batch, length, width], f"{name}.whole")
    y = writer.node("Reshape", [y, whole], f"{name}.context.whole")
    return writer.linear(y, width, width, f"{name}.output")
