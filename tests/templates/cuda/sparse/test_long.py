"""The kernel of long vectors: its stages against the matrix, its registers, and its outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.sparse.config import PanelConfig
from autoq.templates.cuda.sparse.spmm_panel import TEMPLATE as PANEL
from autoq.templates.cuda.sparse.wgmma.config import LongTiling
from autoq.templates.cuda.sparse.wgmma.pack import byte_of, pack_long, value_of
from autoq.templates.cuda.sparse.wgmma.spmm_wgmma import TEMPLATE, LongConfig
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

WORKLOAD = Spmm(150, 144, 150, 32, Structure(256, 56, 96))
HALVES = replace(WORKLOAD, in_dtype="float16", weight_dtype="float16", epilogue=Epilogue("float16"))
TARGET = parse_target("cuda:sm_90a")


@pytest.mark.parametrize("rows", [32, 128])
def test_stages_hold_the_matrix(rows: int) -> None:
    tiling = LongTiling(WORKLOAD, LongConfig(1, 1, rows, 2))
    _, constants = WORKLOAD.random_case(np.random.default_rng(1))
    values, places, starts, lengths, first_rows, *_ = pack_long(tiling, constants)
    stored = values.view(np.int8).reshape(tiling.steps, rows // 32, 2, 32, 16)
    found = np.zeros((160, 150), np.int8)
    for start, length, row in zip(starts, lengths, first_rows, strict=True):
        for number in range(length):
            stage, position = start + number // rows, number % rows
            step, half, byte = byte_of(np.array(position))
            column = places[stage, position] // WORKLOAD.n
            found[row : row + 32, column] = stored[stage, step, half, :, byte]
    np.testing.assert_array_equal(found[:150], WORKLOAD.matrix(constants).to_dense())
    assert (np.diff(lengths) <= 0).all()


def test_blocks_ask_for_different_rows_of_b() -> None:
    """What fills a stage up is of its own vector row, and vector rows do not begin together."""
    tiling = LongTiling(WORKLOAD, LongConfig(1, 1, 64, 2))
    _, constants = WORKLOAD.random_case(np.random.default_rng(1))
    _, places, starts, lengths, _, heads, *_ = pack_long(tiling, constants)
    begins = []
    for start, length, head in zip(starts, lengths, heads, strict=True):
        own = places[start : start - (-length // 64)].reshape(-1)
        named = own[:length]
        assert len(np.unique(named)) == length
        np.testing.assert_array_equal(own, np.resize(named, len(own)))
        np.testing.assert_array_equal(head[: len(own)], own[: len(head)])
        begins.append(np.searchsorted(np.sort(named), named[0]) / length)
    assert np.diff(np.sort(begins)).min() > 0.05


def test_stages_of_floats_hold_the_matrix() -> None:
    tiling = LongTiling(HALVES, LongConfig(1, 1, 64, 2))
    _, constants = HALVES.random_case(np.random.default_rng(1))
    values, places, starts, lengths, first_rows, *_ = pack_long(tiling, constants)
    stored = values.view(np.float16).reshape(tiling.steps, 4, 2, 32, 8)
    found = np.zeros((160, 150), np.float16)
    for start, length, row in zip(starts, lengths, first_rows, strict=True):
        for number in range(length):
            stage, position = start + number // 64, number % 64
            step, half, at = value_of(np.array(position))
            column = places[stage, position] // HALVES.n
            found[row : row + 32, column] = stored[stage, step, half, :, at]
    np.testing.assert_array_equal(found[:150], HALVES.matrix(constants).to_dense())


def test_a_thread_multiplies_the_rows_that_ldmatrix_and_permutes_give_it() -> None:
    """Thread t of four has rows 2t and 2t + 1 of the first eight, then those of the second."""
    positions = np.arange(64)
    step, half, byte = byte_of(positions)
    assert (step == positions // 32).all() and (half == positions % 32 // 16).all()
    assert byte[:16].tolist() == [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15]


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (Spmm(61, 80, 150, 16, Structure(256, 64, 96)), LongConfig(1, 1, 32, 2)),
        (
            replace(WORKLOAD, in_dtype="uint8", epilogue=Epilogue(uniform=True)),
            LongConfig(2, 1, 64, 3),
        ),
        (
            Spmm(256, 256, 300, 128, Structure(256, 128, 160), epilogue=Epilogue("int32")),
            LongConfig(1, 2, 64, 2, 2),
        ),
        (
            replace(WORKLOAD, vector=64, weight_dtype="uint8", epilogue=Epilogue("int8", "uint8")),
            LongConfig(1, 1, 128, 2, 1, 2),
        ),
        (WORKLOAD, LongConfig(1, 1, 64, 3, 1, 2, False, 4)),
        (
            Spmm(200, 256, 300, 128, Structure(256, 128, 160), epilogue=Epilogue("int8")),
            LongConfig(1, 1, 32, 3, 2, 2, False),
        ),
        (
            replace(WORKLOAD, n=256, structure=Structure(0, 0, 0), epilogue=Epilogue("float16")),
            LongConfig(1, 1, 32, 3, 4),
        ),
    ],
    ids=["rows of 16", "of one scale", "multicast", "residual", "one product", "products", "empty"],
)
def test_outputs_are_right(workload: Spmm, config: LongConfig) -> None:
    assert config in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (HALVES, LongConfig(1, 1, 32, 2)),
        (
            replace(
                HALVES,
                n=72,
                in_dtype="bfloat16",
                weight_dtype="bfloat16",
                epilogue=Epilogue("float32", "bfloat16"),
            ),
            LongConfig(1, 1, 64, 3, 1, 2, False),
        ),
        (
            replace(HALVES, m=200, n=256, vector=128, structure=Structure(256, 128, 160)),
            LongConfig(1, 2, 32, 2, 2),
        ),
        (
            replace(HALVES, vector=64, epilogue=Epilogue("float16", "float16")),
            LongConfig(1, 1, 64, 2, 1, 1, False, 4),
        ),
        (replace(HALVES, vector=16, structure=Structure(0, 0, 0)), LongConfig(2, 1, 32, 3)),
    ],
    ids=["whole stages", "bfloat16", "multicast", "residual", "empty"],
)
def test_products_of_floats_are_right(workload: Spmm, config: LongConfig) -> None:
    assert config in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


FEW_UNITS = replace(TARGET, units=3)
"""On which blocks take several tiles of y one after another."""


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (WORKLOAD, LongConfig(1, 1, 32, 2, persistent=True, streamed=True)),
        (replace(HALVES, n=400), LongConfig(2, 1, 32, 3, persistent=True)),
        (
            replace(WORKLOAD, n=256, vector=64, epilogue=Epilogue("int8")),
            LongConfig(1, 1, 64, 3, 2, persistent=True),
        ),
        (
            Spmm(500, 256, 300, 128, Structure(512, 128, 160)),
            LongConfig(1, 2, 64, 3, 1, 1, False, 4, True),
        ),
        (
            replace(WORKLOAD, structure=Structure(0, 0, 0), epilogue=Epilogue("int32")),
            LongConfig(1, 1, 32, 3, persistent=True),
        ),
        (replace(WORKLOAD, n=400), LongConfig(2, 1, 32, 3, persistent=True, turns_back=True)),
        (
            replace(WORKLOAD, n=512, vector=64, epilogue=Epilogue("int8")),
            LongConfig(1, 2, 64, 3, 2, bulk=4, persistent=True, turns_back=True),
        ),
    ],
    ids=[
        "staged",
        "floats",
        "multicast",
        "one product",
        "empty",
        "back",
        "back in clusters",
    ],
)
def test_blocks_that_take_several_tiles_are_right(workload: Spmm, config: LongConfig) -> None:
    tiling = LongTiling(workload, config)
    assert config in TEMPLATE.space(workload, FEW_UNITS)
    assert tiling.blocks(FEW_UNITS) <= 3 < tiling.tiles_of_y
    assert_right_emulated(TEMPLATE, workload, config, FEW_UNITS)


def test_blocks_of_one_tile_are_not_persistent() -> None:
    config = LongConfig(1, 1, 32, 2, persistent=True)
    assert config not in TEMPLATE.space(WORKLOAD, TARGET)
    tiling = LongTiling(WORKLOAD, replace(config, persistent=False))
    assert tiling.blocks(FEW_UNITS) == tiling.tiles_of_y


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (replace(WORKLOAD, n=160, in_dtype="int4"), LongConfig(1, 2, 32, 2)),
        (
            replace(WORKLOAD, n=288, in_dtype="uint4", weight_dtype="uint8", vector=64),
            LongConfig(2, 2, 64, 3, 1, 1, False, persistent=True),
        ),
        (
            Spmm(
                256, 256, 300, 128, Structure(256, 128, 160), "int4", "int4",
                Epilogue("int8", "int8"),
            ),
            LongConfig(1, 2, 64, 3, 2, persistent=True),
        ),
        (
            replace(WORKLOAD, n=256, in_dtype="uint4", epilogue=Epilogue("float16")),
            LongConfig(1, 4, 64, 2, 1, 1, False, 4),
        ),
        (
            replace(WORKLOAD, n=64, in_dtype="int4", epilogue=Epilogue("int32")),
            LongConfig(1, 2, 128, 2),
        ),
        (replace(WORKLOAD, weight_dtype="int16"), LongConfig(1, 1, 32, 2)),
        (
            replace(WORKLOAD, n=288, in_dtype="uint4", weight_dtype="uint16", vector=64),
            LongConfig(2, 2, 64, 3, persistent=True),
        ),
        (
            Spmm(
                256, 256, 300, 128, Structure(256, 128, 160), "uint8", "int16",
                Epilogue("int8", "int8"),
            ),
            LongConfig(1, 1, 32, 3, 2, 1, False, persistent=True),
        ),
        (
            replace(WORKLOAD, weight_dtype="int16", k=50, epilogue=Epilogue("int32")),
            LongConfig(2, 1, 32, 2),
        ),
        (
            replace(WORKLOAD, weight_dtype="int16", epilogue=Epilogue("float16", float_bias=True)),
            LongConfig(1, 1, 64, 2),
        ),
    ],
    ids=[
        "nibbles", "unsigned nibbles", "nibbles and a residual", "nibbles by bulk",
        "sums of nibbles",
        "digits", "unsigned digits", "digits and a residual", "sums of digits", "digits to floats",
    ],
)  # fmt: skip
def test_products_of_narrow_and_wide_values_are_right(workload: Spmm, config: LongConfig) -> None:
    assert config in TEMPLATE.space(workload, FEW_UNITS)
    assert_right_emulated(TEMPLATE, workload, config, FEW_UNITS)


def test_nibbles_whose_sums_are_too_large_are_left_to_panels() -> None:
    """16 times a nibble is multiplied: 40,000 products of 255 by 240 do not fit int32."""
    wide = replace(WORKLOAD, n=160, k=50_000, in_dtype="uint4", weight_dtype="uint8")
    long = replace(wide, structure=Structure(65536, 8192, 40_000))
    assert TEMPLATE.matches(replace(wide, structure=Structure(65536, 8192, 30_000)), TARGET)
    assert not TEMPLATE.matches(long, TARGET) and PANEL.matches(long, TARGET)


def test_sums_that_registers_do_not_hold_are_left_to_panels() -> None:
    """Two digits of 128 rows of two tiles are 256 a thread."""
    long = replace(WORKLOAD, n=160, in_dtype="int4", vector=128)
    wide = replace(long, weight_dtype="int16")
    assert TEMPLATE.matches(long, TARGET) and not TEMPLATE.matches(wide, TARGET)
    assert PANEL.matches(wide, TARGET)


@needs_nvcc
def test_long_vectors_are_taken_by_parts_of_eight_rows_where_there_is_no_wgmma() -> None:
    target = parse_target("cuda:sm_80")
    assert not TEMPLATE.matches(WORKLOAD, target)
    assert_right_emulated(PANEL, WORKLOAD, PanelConfig(32, 4, 2, 2), target)


def test_rows_of_sixteen_are_left_to_panels_where_these_fit() -> None:
    for workload in (WORKLOAD, HALVES):
        sixteen = replace(workload, vector=16)
        assert not TEMPLATE.matches(sixteen, TARGET) and PANEL.matches(sixteen, TARGET)
        assert TEMPLATE.matches(replace(sixteen, k=9000), TARGET)


def test_other_rows_and_values_are_left_to_other_kernels() -> None:
    for other in (
        replace(WORKLOAD, n=72),
        replace(WORKLOAD, in_dtype="int16", weight_dtype="int16"),
        replace(HALVES, n=36),
        replace(WORKLOAD, vector=8),
    ):
        assert not TEMPLATE.matches(other, TARGET) and PANEL.matches(other, TARGET)
