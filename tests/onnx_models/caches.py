"""Models of decoders: caches of keys and values, rotary embeddings, queries that share keys."""

from __future__ import annotations

import numpy as np
import onnx

from onnx_models.makers import MICROSOFT, model, node, normal

PAST, HEADS, SIZE = 6, 2, 16
CACHE = (2, HEADS, PAST, SIZE)


def fused(op, names, inputs, outputs, constants=None, half=False, **attributes):
    """A model of one node of com.microsoft; inputs of int32 are called n, of int64 i."""
    float_type = "float16" if half else "float32"
    types = {name: {"n": "int32", "i": "int64"}.get(name, float_type) for name in inputs}
    typed = {name: (shape, types[name]) for name, shape in inputs.items()}
    made = node(op, names, " ".join(outputs), MICROSOFT, **attributes)
    values = model([made], typed, constants, [])
    for name, shape in outputs.items():
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(float_type))
        values.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, shape))
    return values


def _tables(turns: int) -> dict[str, np.ndarray]:
    angles = np.arange(32)[:, None] / 10.0 ** np.linspace(0, 2, turns)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def grouped(length: int, total: int, kept: int, batch: int = 2, packed=False, turns=8, **more):
    """GroupQueryAttention of four heads of queries over two of keys."""
    wide, narrow = (batch, length, 4 * SIZE), (batch, length, 2 * SIZE)
    inputs = {"q": (batch, length, 8 * SIZE)} if packed else {"q": wide, "k": narrow, "v": narrow}
    names = "q - -" if packed else "q k v"
    inputs |= {"p": (batch, 2, kept, SIZE), "r": (batch, 2, kept, SIZE)} if kept else {}
    names += " p r n t" if kept else " - - n t"
    cache = (batch, 2, max(total, kept), SIZE)
    constants: dict[str, np.ndarray] = {"t": np.array(total, np.int32)}
    if turns:
        names, constants = f"{names} cos sin", {**constants, **_tables(turns)}
    return fused(
        "GroupQueryAttention", names, {**inputs, "n": (batch,)},
        {"y": wide, "pk": cache, "pv": cache}, constants, num_heads=4, kv_num_heads=2,
        do_rotary=int(turns > 0), **more,
    )  # fmt: skip


TOKENS = {name: (2, 3, HEADS * SIZE) for name in "qkv"}
ALL = {
    "y": (2, 3, HEADS * SIZE),
    "pk": (2, HEADS, PAST + 3, SIZE),
    "pv": (2, HEADS, PAST + 3, SIZE),
}
CACHES = {
    "past of Attention": fused(
        "Attention", "x w b - p", {"x": (2, 3, 32), "p": (2, *CACHE)},
        {"y": (2, 3, 32), "z": (2, 2, HEADS, PAST + 3, SIZE)},
        {"w": normal(32, 96), "b": normal(96)}, num_heads=2, unidirectional=1,
    ),
    "past of MultiHeadAttention": fused(
        "MultiHeadAttention", "q k v b - a p r", {**TOKENS, "p": CACHE, "r": CACHE,
        "a": (2, 1, 3, PAST + 3)}, ALL, {"b": normal(96)}, num_heads=2,
    ),
    "keys of another model": fused(
        "MultiHeadAttention", "q k v", {"q": (2, 3, 32), "k": CACHE, "v": CACHE},
        {"y": (2, 3, 32)}, num_heads=2, scale=0.2,
    ),
    "rotary": fused("RotaryEmbedding", "q i cos sin", {"q": (2, 3, 32), "i": (2, 3)},
                    {"y": (2, 3, 32)}, _tables(4)),
    "rotary from a place, by neighbours": fused(
        "RotaryEmbedding", "q i cos sin", {"q": (2, 4, 3, 8), "i": (1,)}, {"y": (2, 4, 3, 8)},
        _tables(4), interleaved=1,
    ),
    "rotary of a part": fused(
        "RotaryEmbedding", "q i cos sin", {"q": (2, 3, 48), "i": (2, 3)}, {"y": (2, 3, 48)},
        _tables(4), num_heads=4, rotary_embedding_dim=8,
    ),
    "grouped prompt": grouped(5, 5, 0),
    "grouped step": grouped(1, PAST + 1, PAST, packed=True),
    "grouped step of one": grouped(1, PAST + 1, PAST, 1, softcap=3.0, turns=0),
    "grouped steps in a wide cache": grouped(3, 9, 12, 1, rotary_interleaved=1, scale=0.5),
}  # fmt: skip
LENGTHS = {"grouped prompt": [4, 4], "grouped step": [6, 3], "grouped step of one": [6],
           "grouped steps in a wide cache": [8]}  # fmt: skip
"""How many keys count, less one, for each sequence."""
