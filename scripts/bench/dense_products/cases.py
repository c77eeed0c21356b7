"""The cases of bench_gemm.py: products of bytes, of floats, mixed ones, batches and attention.

Of bytes there are two kinds: those of `one scale` are what libraries compute, sums by a scale,
rounded; the others are layers of quantised networks, with a scale of each column, a bias and a zero
point.
"""

from __future__ import annotations

from dataclasses import dataclass

from cases.attention_cases import NAMED

from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm

_E4M3 = "float8_e4m3fn"
_BYTE_SIZES = (
    (1024, 1024, 1024), (2048, 2048, 2048), (3456, 4096, 2048), (4096, 4096, 4096),
    (8192, 8192, 8192),
)  # fmt: skip

_FEW_ROWS = (
    (1, 4096, 25088), (1, 4096, 4096), (1, 1000, 4096), (1, 1000, 2048), (8, 4096, 4096),
    (8, 1000, 2048), (16, 4096, 4096), (16, 1000, 2048),
)  # fmt: skip
"""Linear layers behind convolutions, of VGG-16 and ResNet-50 among them."""


@dataclass(frozen=True)
class Case:
    """A product by its name; cold: weights come from memory, not from the L2 cache."""

    name: str
    workload: Gemm | FloatGemm | BatchedGemm | Attention
    cold: bool = False


def paper_cases() -> list[Case]:
    """The eight mixed products of the mixed-input paper's plot, and the two native ones."""
    cases = []
    for short, floats in (("f16", "float16"), ("bf16", "bfloat16")):
        native = FloatGemm(3456, 4096, 2048, floats, floats, floats)
        cases.append(Case(f"{short} x {short} 3456x4096x2048", native))
        for narrow, weights in (("s8", "int8"), ("u8", "uint8")):
            right = FloatGemm(3456, 4096, 2048, floats, weights, floats)
            left = FloatGemm(4096, 3456, 2048, floats, weights, floats, weight_left=True)
            cases.append(Case(f"{short} x {narrow} 3456x4096x2048", right))
            cases.append(Case(f"{narrow} x {short} 3456x4096x2048", left))
    return cases


def attention_cases() -> list[Case]:
    """Scores and values of attention at batch 8: ViT and BERT base, and windows of Swin.

    Heads lie side by side in what the products around them write and read, but for Swin's windows.
    """
    cases = []
    for model, batch, heads, length, depth in (
        ("vit", 8, 12, 197, 64), ("bert", 8, 12, 128, 64), ("bert", 8, 12, 384, 64),
        ("swin", 512, 3, 49, 32),
    ):  # fmt: skip
        x, scores, y = ("bmhk", "bnhk", "bmhn") if model != "swin" else ("bhmk", "bhnk", "bhmn")
        values = scores.replace("nhk", "khn").replace("hnk", "hkn")
        for short, left, right, out in (
            ("s8", "uint8", "int8", "int8"), ("f16", "float16", "float16", "float16"),
        ):  # fmt: skip
            first = BatchedGemm(batch, length, length, depth, heads, right, right, x, scores,
                                "bhmn", Epilogue(out))  # fmt: skip
            second = BatchedGemm(batch, length, depth, length, heads, left, right, "bhmk", values,
                                 y, Epilogue(out))  # fmt: skip
            pairs = f"{batch}x{heads}"
            cases.append(Case(f"{model} scores {short} {pairs} {length}x{length}x{depth}", first))
            cases.append(Case(f"{model} values {short} {pairs} {length}x{depth}x{length}", second))
    return cases


def all_cases() -> list[Case]:
    """Every case, those of the paper's plot first."""
    cases = paper_cases()
    for words, epilogue in (("", Epilogue()), (" one scale", Epilogue(uniform=True))):
        for m, n, k in _BYTE_SIZES:
            cases.append(Case(f"s8 x s8{words} {m}x{n}x{k}", Gemm(m, n, k, epilogue=epilogue)))
    for m, n, k in _FEW_ROWS:
        cases.append(Case(f"s8 x s8 {m}x{n}x{k} cold", Gemm(m, n, k), cold=True))
    for n in (2048, 4096, 8192):
        sums = Gemm(n, n, n, epilogue=Epilogue("int32"))
        cases.append(Case(f"s8 x s8 to int32 {n}x{n}x{n}", sums))
    cases.append(Case("f16 x s8 4096x4096x4096", FloatGemm(4096, 4096, 4096)))
    for m in (16, 64, 1024, 8192):
        cases.append(Case(f"f16 x s8 {m}x8192x8192 cold", FloatGemm(m, 8192, 8192), cold=True))
    for out in ("float16", "float32"):
        workload = FloatGemm(4096, 4096, 4096, _E4M3, _E4M3, out, x_scale=True)
        cases.append(Case(f"e4m3 x e4m3 to {out} 4096x4096x4096", workload))
    for m in (1, 16, 64):
        workload = FloatGemm(m, 8192, 8192, weight_dtype="int4", group=128)
        cases.append(Case(f"f16 x s4 g128 {m}x8192x8192 cold", workload, cold=True))
    fused = [Case(f"attention {name}", workload) for name, workload in NAMED.items()]
    return cases + attention_cases() + fused
