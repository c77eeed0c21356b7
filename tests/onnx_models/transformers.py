"""Models of normalisations and of the operators that onnxruntime's optimiser writes."""

from __future__ import annotations

from onnx_models.makers import MICROSOFT, model, node, normal, with_known_output

ROWS = (2, 5, 8)
IMAGE = (2, 6, 5, 4)


def _norm(op: str, opset: int = 17, **attributes: object):
    """A normalisation of images by constants of channels."""
    constants = {"s": normal(6), "b": normal(6)}
    return model([node(op, "x s b", **attributes)], {"x": (IMAGE, "float32")}, constants, ("y",),
                 opset)  # fmt: skip


def _fused(op: str, names: str, inputs: dict[str, tuple[int, ...]], shape=ROWS, outputs="y",
           constants=None, **attributes: object):  # fmt: skip
    """One node of com.microsoft; inputs of int32 are called i, t or m."""
    typed = {name: (size, "int32" if name in "itm" else "float32") for name, size in inputs.items()}
    made = node(op, names, outputs, MICROSOFT, **attributes)
    read = outputs.split()[::3] if len(outputs) > 1 else ["y"]  # the first and the fourth
    if len(read) == 2:
        total = node("Add", " ".join(read), "all")
        return with_known_output(model([made, total], typed, constants, ("all",)), shape, "float32")
    return with_known_output(model([made], typed, constants), shape, "float32")


_ROWS = {"x": ROWS, "z": ROWS}
_TABLES = {"w": normal(4, 8), "p": normal(6, 8), "e": normal(4, 8), "s": normal(8), "b": normal(8)}
_QKV = {name: (2, 5, 16) for name in "qkv"}

TRANSFORMERS = {
    "layer_norm_with_statistics": model(
        [node("LayerNormalization", "x s", "n m d", axis=2), node("Mul", "n d", "a"),
         node("Add", "a m")],
        {"x": (IMAGE, "float32")}, {"s": normal(5, 4)},
    ),
    "norm_of_transposed_rows": model(
        [node("Transpose", "x", "t", perm=[0, 2, 1]), node("Add", "t p", "a"),
         node("LayerNormalization", "a s")],
        {"x": ((1, 32, 5), "float32")}, {"p": normal(5, 32), "s": normal(32)},
    ),
    "instance_norm": _norm("InstanceNormalization", epsilon=0.1),
    "group_norm": _norm("GroupNormalization", 21, num_groups=3),
    "rms_norm": model([node("RMSNormalization", "x s", axis=-2)], {"x": (IMAGE, "float32")},
                      {"s": normal(5, 4)}, opset=23),
    "mean_variance_norm": model([node("MeanVarianceNormalization", "x", axes=[0, -1])],
                                {"x": (IMAGE, "float32")}),
    "lp_norm": model(
        [node("Trilu", "x", "t"), node("LpNormalization", "t", "n", p=1),
         node("LpNormalization", "n", axis=1)], {"x": (IMAGE, "float32")},
    ),
    "simplified_norm": with_known_output(
        model([node("SimplifiedLayerNormalization", "x s")], {"x": (ROWS, "float32")},
              {"s": normal(8)}), ROWS, "float32",
    ),
    "skip_norm": _fused("SkipLayerNormalization", "x z s b c", _ROWS, outputs="y m d t",
                        constants={n: normal(8) for n in "sbc"}),
    "skip_rms_norm": _fused("SkipSimplifiedLayerNormalization", "x z s", _ROWS, outputs="y m d t",
                            constants={"s": normal(8)}, epsilon=0.01),
    "bias_gelu": _fused("BiasGelu", "x b", {"x": ROWS}, constants={"b": normal(8)}),
    "fast_gelu": _fused("FastGelu", "x", {"x": ROWS}),
    "quick_gelu": _fused("QuickGelu", "x", {"x": ROWS}, alpha=1.5),
    "fused_matmul": _fused("FusedMatMul", "x z", {"x": ROWS, "z": (2, 7, 8)}, (2, 5, 7), transB=1,
                           alpha=0.5),
    "embed_norm": model(
        [node("Cast", "f", "g", to=9), node("Cast", "g", "t", to=6),
         node("EmbedLayerNormalization", "t t w p e s b t", "y m", MICROSOFT)],
        {"f": (ROWS[:2], "float32")}, _TABLES, ("y", "m"),
    ),
    "attention": _fused("Attention", "x w b m", {"x": (2, 5, 16), "m": (2, 5)}, (2, 5, 16),
                        constants={"w": normal(16, 48), "b": normal(48)}, num_heads=2),
    "causal_attention": _fused("Attention", "x w b", {"x": (2, 5, 16)}, (2, 5, 16), num_heads=4,
                               constants={"w": normal(16, 48), "b": normal(48)}, unidirectional=1),
    "multi_head_attention": _fused(
        "MultiHeadAttention", "q k v b - a", {**_QKV, "k": (2, 7, 16), "v": (2, 7, 16),
        "a": (1, 2, 5, 7)}, (2, 5, 16), constants={"b": normal(48)}, num_heads=2, scale=0.3,
    ),
    "attention_of_onnx": model(
        [node("Attention", "q k v m", q_num_heads=2, kv_num_heads=2)],
        {**{name: (shape, "float32") for name, shape in _QKV.items()}, "m": ((5, 5), "bool")},
        opset=23,
    ),
}  # fmt: skip
