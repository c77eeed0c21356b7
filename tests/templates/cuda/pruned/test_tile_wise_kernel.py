"""The tile-wise kernel: its packed arrays against the weight, and its outputs on the emulator."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.composed.pruned_product import pruned_product
from autoq.templates.cuda.device.turned.fragment_source import BYTE_ORDER
from autoq.templates.cuda.pruned.tile_wise.config import TileWiseConfig, TileWiseTiling
from autoq.templates.cuda.pruned.tile_wise.gemm_tile_wise import TEMPLATE
from autoq.templates.cuda.pruned.tile_wise.outputs import slot
from autoq.templates.cuda.pruned.tile_wise.pack import pack_schedule
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import TILE_WISE, Sparsity
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
CLASS = Sparsity("tw", 64, 160, Structure(320, 112, 160))
BYTES = Gemm(100, 300, 200, sparsity=CLASS)
FLOATS = FloatGemm(100, 300, 200, weight_dtype="float16", sparsity=CLASS)
EMPTY = Sparsity("tw", 8, 0, Structure(0, 0, 0))


@pytest.mark.parametrize("workload", [BYTES, FLOATS], ids=str)
@pytest.mark.parametrize(("depth", "joined"), [(2, 1), (4, 2)])
def test_stages_hold_the_weight(workload: Gemm | FloatGemm, depth: int, joined: int) -> None:
    view = pruned_product(workload, TILE_WISE)
    assert view is not None
    tiling = TileWiseTiling(view, TileWiseConfig(128, 2, depth, 3, 1, 4, joined))
    _, constants = workload.random_case(np.random.default_rng(1))
    schedule = pack_schedule(tiling, constants)
    values, rows, tiles, entries = schedule.arrays
    columns = schedule.columns.reshape(tiling.tiles, tiling.width)
    unit = 16 // tiling.size
    order = np.argsort(BYTE_ORDER) if tiling.size == 1 else np.arange(unit)
    found = np.zeros((200, 301), np.float64)
    for (first, count, *_), own in zip(tiles, columns, strict=True):
        for stage in range(first, first + count):
            # [units, width, values of a unit] to rows in their order, [rows, width].
            kept = values[stage][:, :, order].transpose(0, 2, 1).reshape(-1, tiling.width)
            np.add.at(found, np.ix_(rows[stage], own), kept.astype(np.float64))
    np.testing.assert_array_equal(found[:, :300], np.asarray(constants["weight"], np.float64).T)
    assert not found[:, 300].any() and (np.diff(tiles[:, 1]) <= 0).all()
    dead = view.of_no_weight(constants)
    assert_words_are_right(tiles, columns, entries.view(np.uint32), dead)


def assert_words_are_right(
    tiles: np.ndarray, columns: np.ndarray, entries: np.ndarray, dead: np.ndarray
) -> None:
    """A row of y put together as the kernel does, of tiles whose outputs are random bytes."""
    size, rng = dead.dtype.itemsize, np.random.default_rng(2)
    expected, row = dead.copy().view(np.uint8), np.zeros(dead.nbytes, np.uint8)
    times = np.zeros(dead.nbytes, np.int64)
    for (*_, first, counts), own in zip(tiles, columns, strict=True):
        whole, shared = counts & (1 << 30) - 1, counts >> 30 & 3
        count = whole + shared
        masks = entries[first : first + count, 3] >> 16
        assert (masks[:whole] == 15).all() and (masks[whole:] != 15).all() and shared <= 2
        outputs = rng.integers(0, 256, len(own) * size + 8, np.uint8)
        for at, column in enumerate(own[own < len(dead)]):
            expected[column * size :][:size] = outputs[at * size :][:size]
        for word, how, fill, place in entries[first : first + count].tolist():
            two = outputs[(place & 0xFFFF) * 4 :][:8]
            found = [two[how >> 4 * i & 7] for i in range(4)]
            choices = [*found, *fill.to_bytes(4, "little")]
            for i in range(4):
                if place >> 16 + i & 1:
                    row[4 * word + i] = choices[how >> 16 + 4 * i & 7]
                    times[4 * word + i] += 1
    assert (times == 1).all()
    np.testing.assert_array_equal(row, expected)


def test_places_of_sums_are_those_of_columns() -> None:
    """Where outputs need what lies at their place in y, sums are read by columns."""
    workload = replace(BYTES, epilogue=Epilogue("int8", "int8"))
    view = pruned_product(workload, TILE_WISE)
    assert view is not None
    tiling = TileWiseTiling(view, TileWiseConfig(128, 2, 2, 3, 1, 4))
    assert not tiling.in_words
    _, constants = workload.random_case(np.random.default_rng(1))
    *_, tiles, places = pack_schedule(tiling, constants).arrays
    for tile in view.sparsity.tiles_of(constants["weight"]):
        np.testing.assert_array_equal(places[tile.columns], slot(np.arange(len(tile.columns))))
    assert np.count_nonzero(places != tiling.row_pitch - 8) == 160
    spans = sorted((first, first + count) for *_, first, count in tiles if count)
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
        (BYTES, TileWiseConfig(128, 2, 2, 3, 1, 4)),
        (
            replace(BYTES, n=302, in_dtype="uint8", epilogue=Epilogue("int32")),
            TileWiseConfig(64, 1, 4, 4, 1, 0),
        ),
        (
            replace(BYTES, m=70, k=199, weight_dtype="uint8",
                    epilogue=Epilogue("uint8", "int8", True)),
            TileWiseConfig(128, 1, 2, 2, 2, 4),
        ),
        (
            replace(BYTES, n=301, epilogue=Epilogue("float16", row_scale=True, float_bias=True)),
            TileWiseConfig(64, 1, 2, 4, 1, 0),
        ),
        (replace(BYTES, sparsity=EMPTY), TileWiseConfig(64, 1, 2, 2, 1, 4)),
        (
            replace(BYTES, epilogue=Epilogue("int8", table=True)),
            TileWiseConfig(128, 2, 2, 4, 1, 0, ahead=True),
        ),
        (replace(FLOATS, bias=True), TileWiseConfig(128, 2, 2, 3, 1, 4)),
        (replace(BYTES, m=120), TileWiseConfig(64, 1, 2, 3, 1, 2, 2, 2)),
        (replace(FLOATS, m=250), TileWiseConfig(64, 1, 2, 3, 2, 4, 1, 2, True)),
        (
            replace(BYTES, m=300, k=333),
            TileWiseConfig(128, 2, 2, 3, 1, 0, helped=True, fused=True),
        ),
        (
            replace(BYTES, n=302, in_dtype="uint8", epilogue=Epilogue("int32")),
            TileWiseConfig(64, 1, 4, 4, 1, 0, 2, helped=True),
        ),
        (
            replace(FLOATS, m=250, bias=True),
            TileWiseConfig(64, 1, 2, 3, 1, 4, 1, 2, helped=True, fused=True),
        ),
        (replace(BYTES, sparsity=EMPTY), TileWiseConfig(64, 1, 2, 2, 1, 0, helped=True)),
        (
            replace(BYTES, m=300, k=333),
            TileWiseConfig(128, 2, 2, 3, 1, 0, 1, 1, swizzled=True, helped=True),
        ),
        (replace(FLOATS, m=250, k=77), TileWiseConfig(64, 1, 2, 3, 1, 0, 2, 2, swizzled=True)),
        (
            FloatGemm(70, 99, 75, "bfloat16", "bfloat16", "float32", activation="gelu_tanh",
                      sparsity=Sparsity("tw", 24, 60, Structure(96, 32, 64))),
            TileWiseConfig(128, 1, 4, 4, 1, 0),
        ),
        (
            replace(FLOATS, k=77, residual=True, x_scale=True),
            TileWiseConfig(192, 3, 2, 2, 1, 4),
        ),
    ],
    ids=["bytes", "sums", "residual", "row scales", "empty", "table", "floats", "joined", "cluster",
         "helped", "helped sums", "helped floats", "helped empty", "helped swizzled", "swizzled",
         "bfloat16", "float residual"],
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


def test_sums_of_joined_tiles_fit_what_threads_are_launched_with() -> None:
    """Two blocks leave 128 registers a thread, and ptxas asks for 158 for 256 columns."""
    tiles = Sparsity("tw", 128, 1024, Structure(8192, 1024, 1536))
    space = TEMPLATE.space(Gemm(4096, 4096, 4096, sparsity=tiles), TARGET)
    joined = TileWiseConfig(64, 1, 2, 4, 2, 4, 2)
    assert "launched with" in str(space.rejection(joined))
    assert space.rejection(replace(joined, blocks=1)) is None
    assert space.rejection(replace(joined, joined=1)) is None
