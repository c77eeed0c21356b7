"""Products that are 2:4 inside tiles, and weights of theirs, for the tests of their kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from autoq.templates.cuda.pruned.tile_two_four.config import TileTwoFourConfig
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_80")
CLASS = Sparsity("tvw", 64, 160, Structure(512, 192, 320), Structure(128, 48, 80))
FEW = Sparsity("tvw", 64, 100, Structure(40, 20, 24), Structure(12, 5, 6))
BYTES = Gemm(100, 300, 416, sparsity=CLASS)
FLOATS = FloatGemm(100, 300, 416, weight_dtype="float16", sparsity=CLASS)
BRAIN = FloatGemm(
    70, 100, 80, "bfloat16", "bfloat16", "float32", activation="gelu_tanh",
    sparsity=Sparsity("tvw", 24, 60, Structure(96, 32, 64), Structure(24, 8, 16)),
)  # fmt: skip
LEAST = TileTwoFourConfig(64, 1, 4, 2, 3)


def masked(
    workload: Gemm | FloatGemm, granularity: int, sparsity: float, seed: int
) -> tuple[Any, Any]:
    """The product with the class of a random weight, and a case of it.

    A sparsity of 0 has no zeros, and one of 1 nothing else; between them tiles are 2:4 inside.
    """
    rng = np.random.default_rng(seed)
    dense = replace(workload, sparsity=None)
    values, constants = dense.random_case(rng)
    weight = constants["weight"]
    one = np.ones((), weight.dtype)
    weight = np.where(weight == 0, one, weight)
    if sparsity == 0:
        kept = np.ones(weight.shape, bool)
    else:
        kept = np.zeros(weight.shape, bool)
        columns = np.flatnonzero(rng.random(len(weight)) > sparsity**2)
        for first in range(0, len(columns), granularity):
            own = columns[first : first + granularity]
            rows = np.flatnonzero(rng.random(weight.shape[1]) > sparsity)
            for group in np.split(rows, range(4, len(rows), 4)):
                order = rng.random((len(own), len(group))).argsort(axis=1)
                kept[np.ix_(own, group)] = order < 2
    constants["weight"] = np.where(kept, weight, one - one)
    known = replace(workload, sparsity=Sparsity.of("tvw", constants["weight"], granularity))
    known.check_constants(constants)
    return known, (values, constants)


def apart(of_first: float) -> tuple[Gemm, Any]:
    """A product whose tiles keep the first rows of k, the last ones and few of all; and a case."""
    dense = Gemm(70, 48, 2048)
    case = dense.random_case(np.random.default_rng(1))
    rows = np.arange(dense.k)
    kept = np.zeros((48, dense.k), bool)
    kept[:16] = (rows < 700) & (rows % 4 < 2)
    kept[16:32] = (rows > 1500) & (rows % 4 > 1)
    kept[32:] = rows % 1000 == 7
    kept[0] &= rows < 700 * of_first
    weight = case[1]["weight"]
    case[1]["weight"] = np.where(kept, np.where(weight == 0, np.int8(1), weight), np.int8(0))
    return replace(dense, sparsity=Sparsity.of("tvw", case[1]["weight"], 16)), case


def drawn(seed: int, most: int) -> tuple[Gemm | FloatGemm, int]:
    """A product of random extents up to so many, of bytes by even seeds, and columns of tiles."""
    rng = np.random.default_rng(seed)
    m, n, k = (int(extent) for extent in rng.integers(1, most, 3))
    granularity = int(rng.integers(1, 100))
    if seed % 2:
        of = ("float16", "bfloat16")[seed // 2 % 2]
        work = FloatGemm(m, n, -(-k // 8) * 8, of, of, of, bias=True, residual=seed % 4 == 3)
        return work, granularity
    epilogue = Epilogue("int8", "int8") if seed % 4 == 2 else Epilogue("uint8")
    of = ("int8", "uint8")[seed // 2 % 2]
    return Gemm(m, n, -(-k // 16) * 16, of, "int8", epilogue), granularity
