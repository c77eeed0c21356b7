"""The tile-wise kernel: its packed arrays against the weight, and its outputs on the emulator."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.tile_wise.config import TileWiseConfig, TileWiseTiling
from autoq.templates.cuda.tile_wise.gemm_tile_wise import TEMPLATE
from autoq.templates.cuda.tile_wise.pack import BYTE_ORDER, pack_schedule, slot
from autoq.templates.cuda.tile_wise.view import view_of
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.structure import Structure
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
CLASS = Sparsity("tw", 64, 160, Structure(320, 112, 160))
BYTES = Gemm(100, 300, 200, sparsity=CLASS)
FLOATS = FloatGemm(100, 300, 200, weight_dtype="float16", sparsity=CLASS)
EMPTY = Sparsity("tw", 8, 0, Structure(0, 0, 0))


@pytest.mark.parametrize("workload", [BYTES, FLOATS], ids=str)
@pytest.mark.parametrize("depth", [2, 4])
def test_stages_hold_the_weight(workload: Gemm | FloatGemm, depth: int) -> None:
    view = view_of(workload)
    assert view is not None
    tiling = TileWiseTiling(view, TileWiseConfig(128, 2, depth, 3, 1, True))
    _, constants = workload.random_case(np.random.default_rng(1))
    values, rows, tiles, places = pack_schedule(tiling, constants)
    unit = 16 // tiling.size
    order = np.argsort(BYTE_ORDER) if tiling.size == 1 else np.arange(unit)
    found = np.zeros((200, 300), np.float64)
    columns_of = {int(place): slot_ for slot_, place in enumerate(slot(np.arange(tiling.width)))}
    for first, count, start, stop in tiles:
        own = [c for c in range(start, stop) if places[c] in columns_of]
        for stage in range(first, first + count):
            # [units, width, values of a unit] to rows in their order, [rows, width].
            kept = values[stage][:, :, order].transpose(0, 2, 1).reshape(-1, tiling.width)
            for column in own:
                at = columns_of[int(places[column])]
                np.add.at(found[:, column], rows[stage], kept[:, at].astype(np.float64))
    np.testing.assert_array_equal(found, np.asarray(constants["weight"], np.float64).T)
    assert (np.diff(tiles[:, 1]) <= 0).all()
    spans = sorted(tuple(tile[2:]) for tile in tiles if tile[3] > tile[2])
    assert spans[0][0] == 0 and spans[-1][1] == 300
    assert all(one[1] == other[0] for one, other in itertools.pairwise(spans))


def test_sums_of_four_lanes_lie_in_different_banks() -> None:
    """Lanes eight apart read columns 32 apart."""
    columns = np.arange(0, 128, 32)
    for i in range(4):
        assert len(set(slot(columns + i) % 32)) == 4
    assert sorted(slot(np.arange(256))) == list(range(256))


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (BYTES, TileWiseConfig(128, 2, 2, 3, 1, True)),
        (
            replace(BYTES, n=302, in_dtype="uint8", epilogue=Epilogue("int32")),
            TileWiseConfig(64, 1, 4, 4, 1, False),
        ),
        (
            replace(BYTES, m=70, k=199, weight_dtype="uint8",
                    epilogue=Epilogue("uint8", "int8", True)),
            TileWiseConfig(128, 1, 2, 2, 2, True),
        ),
        (
            replace(BYTES, n=301, epilogue=Epilogue("float16", row_scale=True, float_bias=True)),
            TileWiseConfig(64, 1, 2, 4, 1, False),
        ),
        (replace(BYTES, sparsity=EMPTY), TileWiseConfig(64, 1, 2, 2, 1, True)),
        (
            replace(BYTES, epilogue=Epilogue("int8", table=True)),
            TileWiseConfig(128, 2, 2, 4, 1, False),
        ),
        (replace(FLOATS, bias=True), TileWiseConfig(128, 2, 2, 3, 1, True)),
        (
            FloatGemm(70, 99, 75, "bfloat16", "bfloat16", "float32", activation="gelu_tanh",
                      sparsity=Sparsity("tw", 24, 60, Structure(96, 32, 64))),
            TileWiseConfig(128, 1, 4, 4, 1, False),
        ),
        (
            replace(FLOATS, k=77, residual=True, x_scale=True),
            TileWiseConfig(192, 3, 2, 2, 1, True),
        ),
    ],
    ids=["bytes", "sums", "residual", "row scales", "empty", "table", "floats", "bfloat16",
         "float residual"],
)  # fmt: skip
def test_outputs_are_right(workload: Gemm | FloatGemm, config: TileWiseConfig) -> None:
    assert config in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


def test_what_it_declines() -> None:
    assert TEMPLATE.matches(BYTES, TARGET) and TEMPLATE.matches(FLOATS, TARGET)
    assert not TEMPLATE.matches(BYTES, parse_target("cuda:sm_80"))
    wide = replace(CLASS, granularity=512)
    others = (
        BYTES.dense, FLOATS.dense, replace(BYTES, sparsity=wide),
        replace(BYTES, weight_dtype="int4"), replace(BYTES, epilogue=Epilogue("int4")),
        replace(FLOATS, weight_left=True), replace(FLOATS, residual=True, activation="gelu"),
    )  # fmt: skip
    assert not any(TEMPLATE.matches(workload, TARGET) for workload in others)
