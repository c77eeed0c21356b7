"""Tiles with single weights beside them: the outputs of both kernels together, emulated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.pruned.gemm_tiles_and_elements import TEMPLATE, TilesAndElementsConfig
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.patterns.tiles_and_elements import parted
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
CLASS = Sparsity("tew", 64, 160, Structure(320, 112, 112), Structure(640, 4, 10))
BYTES = Gemm(100, 300, 200, sparsity=CLASS)
FLOATS = FloatGemm(100, 300, 200, weight_dtype="float16", sparsity=CLASS)


def config(rows: int, lanes: int, outputs: int = 2) -> TilesAndElementsConfig:
    return TilesAndElementsConfig(
        lanes=lanes, outputs=outputs, warps=4, chunk=64, rows=rows, consumers=1, depth=2, stages=3,
        blocks=1, bulk=0,
    )  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "chosen"),
    [
        (BYTES, config(128, 8)),
        (
            replace(BYTES, n=302, in_dtype="uint8", weight_dtype="uint8",
                    epilogue=Epilogue("uint8", "int8", True)),
            config(64, 4),
        ),
        (
            replace(BYTES, n=301, epilogue=Epilogue("float16", row_scale=True, float_bias=True)),
            config(128, 4, 1),
        ),
        (replace(FLOATS, bias=True, activation="relu"), config(128, 8)),
        (replace(FLOATS, k=177, residual=True, x_scale=True), config(64, 8)),
    ],
    ids=["bytes", "residual", "row scales", "floats", "float residual"],
)  # fmt: skip
def test_outputs_are_right(workload: Gemm | FloatGemm, chosen: TilesAndElementsConfig) -> None:
    _, constants = workload.random_case(np.random.default_rng(1))
    tiles, single = parted(constants["weight"], 64)
    assert np.count_nonzero(tiles) > 10000 and np.count_nonzero(single) > 400
    assert chosen in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, chosen, TARGET)


def test_the_default_is_legal_and_panels_are_whole() -> None:
    for workload in (BYTES, FLOATS, replace(BYTES, m=150)):
        assert TEMPLATE.default(workload, TARGET) in TEMPLATE.space(workload, TARGET)
    uneven = TEMPLATE.space(replace(BYTES, m=150), TARGET).rejection(config(64, 16))
    assert uneven == "panels_are_whole: x is turned in rows that panels divide."


def test_what_it_declines() -> None:
    assert not TEMPLATE.matches(BYTES, parse_target("cuda:sm_80"))
    others = (BYTES.dense, replace(BYTES, sparsity=CLASS.tiles_alone),
              replace(FLOATS, weight_left=True))  # fmt: skip
    assert not any(TEMPLATE.matches(workload, TARGET) for workload in others)
