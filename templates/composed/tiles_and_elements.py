"""Products whose weight is the sum of one in tiles and one of single values, taken apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.patterns.tiles_and_elements import parted
from autoq.templates.sparse.structure import Structure
from autoq.templates.workload import Constants

P = TypeVar("P", Gemm, FloatGemm)


def of_tiles(workload: P) -> P:
    """The product with the tiles alone, whose outputs are sums: int32 or float32."""
    assert workload.sparsity is not None
    tiles = workload.sparsity.tiles_alone
    if isinstance(workload, Gemm):
        sums = "float32" if workload.in_dtype == "float32" else "int32"
        return replace(workload, epilogue=Epilogue(sums), sparsity=tiles)
    return replace(
        workload, out_dtype="float32", bias=False, activation="none", x_scale=False,
        residual=False, residual_first=False, sparsity=tiles,
    )  # fmt: skip


def elements_beside(workload: Gemm | FloatGemm) -> Structure:
    """The class of the single values."""
    assert workload.sparsity is not None and workload.sparsity.beside is not None
    return workload.sparsity.beside


def constants_apart(
    workload: Gemm | FloatGemm, constants: Constants
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Constants of `of_tiles`, and those of the single values, which have the epilogue's."""
    assert workload.sparsity is not None
    tiles, single = parted(constants["weight"], workload.sparsity.granularity)
    bias = np.zeros(workload.n, np.float32 if tiles.dtype == np.float32 else np.int32)
    zero_point = constants.get("x_zero_point", 0)
    given = {"weight": tiles, "bias": bias, "scalars": pack_scalars(), "x_zero_point": zero_point}
    return given, {**constants, "weight": single}
