"""Batched products of two activations that templates are tested on, in every order and dtype."""

from __future__ import annotations

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
)
TABLES = (
    BatchedGemm(2, 9, 8, 12, 2, "uint8", "int8", *_HEADS, Epilogue("uint8", table=True)),
    BatchedGemm(1, 4, 7, 5, 3, epilogue=Epilogue("int8", table=True)),
)


def case_id(workload: BatchedGemm) -> str:
    """A readable name of a case."""
    dtypes = f"{workload.in_dtype}-{workload.other_dtype}-{workload.epilogue.out_dtype}"
    return f"{str(workload).replace(' ', '-')}-{dtypes}"
