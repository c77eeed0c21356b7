"""Batched products of two activations that templates are tested on, in every order and dtype."""

from __future__ import annotations

import numpy as np

from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.batched_gemm import BatchedGemm

_HEADS = ("bmhk", "bnhk", "bhmn")
_VALUES = ("bhmk", "bkhn", "bmhn")
BATCHED = (
    BatchedGemm(1, 20, 24, 16, 3, "uint8", "int8", *_HEADS),
    BatchedGemm(2, 7, 12, 23, 2, "uint8", "uint8", *_VALUES, Epilogue("uint8")),
    BatchedGemm(3, 5, 9, 8, epilogue=Epilogue("float32")),
    BatchedGemm(1, 33, 5, 7, other_dtype="uint8", epilogue=Epilogue("int32")),
    BatchedGemm(
        2, 8, 17, 40, 2, "int8", "uint8", "bmhk", "bhkn", epilogue=Epilogue("float32", "uint8")
    ),
    BatchedGemm(
        2, 6, 16, 12, 3, "uint8", "int8", "bhmk", "bhnk", "bmhn", Epilogue("int8", "int8", True)
    ),
    BatchedGemm(4, 1, 8, 64, epilogue=Epilogue("uint8", "float32")),
    BatchedGemm(1, 3, 1, 130, 2, "uint8", "int8", "bhmk", "bhkn"),
    BatchedGemm(2, 9, 21, 40, 1, "uint8", "int8", "bhmk", "bkhn", epilogue=Epilogue("float16")),
    BatchedGemm(1, 20, 24, 32, 2, epilogue=Epilogue("bfloat16")),
)
TABLES = (
    BatchedGemm(2, 9, 8, 12, 2, "uint8", "int8", *_HEADS, Epilogue("uint8", table=True)),
    BatchedGemm(1, 4, 7, 5, 3, epilogue=Epilogue("int8", table=True)),
)

FLOATS = (
    BatchedGemm(1, 20, 24, 16, 3, "float16", "float16", *_HEADS, epilogue=Epilogue("float16")),
    BatchedGemm(
        2, 33, 17, 41, 1, "float16", "float16", "bhmk", "bhkn", epilogue=Epilogue("bfloat16")
    ),
    BatchedGemm(1, 70, 40, 96, 2, "float16", "float16", *_VALUES, Epilogue("float32")),
    BatchedGemm(
        1, 49, 49, 33, 1, "bfloat16", "bfloat16", "bhmk", "bhnk", epilogue=Epilogue("bfloat16")
    ),
    BatchedGemm(2, 5, 24, 130, 2, "bfloat16", "bfloat16", *_VALUES, Epilogue("float32")),
)
"""Products of 16-bit floats."""


def random_product(rng: np.random.Generator) -> BatchedGemm:
    """A product of random extents, odd ones among them, orders, dtypes and epilogue."""
    m, n, k = (int(rng.integers(1, most)) for most in (150, 150, 260))
    if rng.random() < 0.5:
        n, k = -(-n // 8) * 8, -(-k // 16) * 16
    orders = [str(rng.choice(names)) for names in (
        ("bhmk", "bmhk"), ("bhnk", "bhkn", "bnhk", "bkhn"), ("bhmn", "bmhn"))]  # fmt: skip
    pair = (int(rng.integers(1, 3)), m, n, k, int(rng.integers(1, 3)))
    if rng.random() < 0.4:
        kind = str(rng.choice(("float16", "bfloat16")))
        out = str(rng.choice(("float16", "bfloat16", "float32")))
        return BatchedGemm(*pair, kind, kind, *orders, Epilogue(out))
    x, other = (str(rng.choice(("int8", "uint8"))) for _ in range(2))
    epilogues = (
        Epilogue("int8"), Epilogue("uint8"), Epilogue("float32"), Epilogue("int32"),
        Epilogue("int8", "uint8", True), Epilogue("float32", "float32"),
        Epilogue("uint8", table=True), Epilogue("float16"),
    )  # fmt: skip
    return BatchedGemm(*pair, x, other, *orders, epilogues[rng.integers(len(epilogues))])


def case_id(workload: BatchedGemm) -> str:
    """A readable name of a case."""
    dtypes = f"{workload.in_dtype}-{workload.other_dtype}-{workload.epilogue.out_dtype}"
    return f"{str(workload).replace(' ', '-')}-{dtypes}"
