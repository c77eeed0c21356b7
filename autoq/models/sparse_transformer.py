"""A Transformer encoder in float16 whose attention sees the keys that one constant mask keeps.

Structure: Li, Osawa and Hoefler, "Efficient Quantized Sparse Matrix Operations on Tensor Cores" (SC
2022), figure 17: encoder layers of Vaswani et al., "Attention Is All You Need", with heads of 64
values. The mask is an initialiser that is added to scores.
"""

from __future__ import annotations

import numpy as np
import onnx

from autoq.errors import InputError
from autoq.models.token_writer import TokenWriter, in_float16

LEFT_OUT = -65504.0
"""What is added to the score of a key that a query does not see: the least float16."""

_DEPTH = 64


def vector_mask(length: int, sparsity: float, seed: int = 0, vector: int = 8) -> np.ndarray:
    """A random mask, bool [length, length], true where a key is kept.

    `vector` queries, from a multiple of it on, see the same keys: of each such group as many keys
    as the sparsity says, of all with the same probability, but at least one.
    """
    rng = np.random.default_rng(seed)
    kept = max(1, round((1 - sparsity) * length))
    groups = np.zeros((-(-length // vector), length), bool)
    for group in groups:
        group[rng.choice(length, kept, replace=False)] = True
    return np.repeat(groups, vector, axis=0)[:length]


def sparse_transformer(
    mask: np.ndarray, heads: int = 8, layers: int = 4, batch: int = 2, seed: int = 0
) -> onnx.ModelProto:
    """Encoder layers over `[batch, length, heads * 64]`, float16, under a mask [length, length].

    mask: bool, true where a query (the row) sees a key. Weights are normal numbers of `seed`.
    Raises InputError for a mask of another shape or type.
    """
    if mask.ndim != 2 or mask.shape[0] != mask.shape[1] or mask.dtype != bool:
        raise InputError(
            f"a mask of {mask.dtype} {list(mask.shape)}: bool [length, length] is expected"
        )
    length, width = len(mask), heads * _DEPTH
    writer = TokenWriter(np.random.default_rng(seed))
    added = writer.constant(np.where(mask, 0, LEFT_OUT).astype(np.float32), "mask")
    x = "input"
    for layer in range(layers):
        name = f"layer{layer}"
        attended = writer.attention(x, (batch, length, width), heads, f"{name}.attention", added)
        x = writer.node("Add", [attended, x], f"{name}.attention.add")
        x = writer.layer_norm(x, width, f"{name}.norm1")
        y = writer.linear(x, width, 4 * width, f"{name}.expand")
        y = writer.linear(
            writer.node("Relu", [y], f"{name}.relu"), 4 * width, width, f"{name}.shrink"
        )
        x = writer.layer_norm(writer.node("Add", [y, x], f"{name}.add"), width, f"{name}.norm2")
    shape = (batch, length, width)
    return in_float16(writer.tokens_model("sparse_transformer", x, shape, shape))
