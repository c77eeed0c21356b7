"""Products that are 2:4 inside tiles on mma.sp: what is packed against the weight, and outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gpu_kernels import assert_right, gpu_target
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.mma.registers import from_words
from autoq.templates.cuda.pruned.picked.operand import operand_of
from autoq.templates.cuda.pruned.picked.steps import NO_ROW
from autoq.templates.cuda.pruned.tile_two_four.chunks import chunk_picks, most_steps
from autoq.templates.cuda.pruned.tile_two_four.config import TileTwoFourConfig, TileTwoFourTiling
from autoq.templates.cuda.pruned.tile_two_four.gemm_tile_two_four_mma_sync import TEMPLATE
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure
from autoq.templates.sparse.two_four import group_starts
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


def grouped(rng: np.random.Generator, rows: int, share: float) -> list[np.ndarray]:
    """Some of so many rows in groups of up to four that follow each other."""
    kept = np.flatnonzero(rng.random(rows) < share)
    ends = np.cumsum(rng.integers(1, 5, len(kept)))
    return [group for group in np.split(kept, ends[ends < len(kept)]) if len(group)]


def picked_places(words: np.ndarray, size: int, row_bytes: int) -> np.ndarray:
    """Which place of all stages each value of a fragment is, int64 [steps, values], from words.

    words: uint32 [steps, lanes, registers], as `Picks.near` says them.
    """
    found, begun = [], 0
    for step in words:
        begun += int(step[0, 0] >> 28 & 7)
        own = []
        for register in range(4):
            for lane in range(4):
                pick = int(step[lane, register])
                at = []
                for place in (pick >> 16 & 63, pick >> 22 & 63):
                    stage = begun - 1 if (begun - 1) % 2 == place >> 5 else begun - 2
                    at.append(stage * row_bytes + 4 * (place & 31))
                chosen = [pick >> 4 * byte & 7 for byte in range(4)]
                assert not pick >> 31 or max(chosen) < 4, "the second word is not read"
                places = np.array([at[byte // 4] + byte % 4 for byte in chosen])
                values = places.reshape(-1, size)
                assert (values - values[:, :1] == np.arange(size)).all()
                own += (values[:, 0] // size).tolist()
        found.append(own)
    return np.array(found)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("row_bytes", [32, 128])
def test_chunks_are_groups_of_words_that_are_there(size: int, share: float, row_bytes: int) -> None:
    """Each row once, in chunks of one group or of two rows, picked of stages that have begun."""
    rng = np.random.default_rng(int(100 * share) + size)
    stages = 9
    rows = stages * row_bytes // size
    groups = grouped(rng, rows, share)
    picks = chunk_picks(groups, size, stages, row_bytes)
    steps = len(picks.rows) // 2
    assert 1 <= steps <= most_steps(sum(map(len, groups)), len(groups), size, stages)
    own = picks.rows.reshape(steps, -1)
    kept = np.concatenate(groups) if groups else np.zeros(0, np.int64)
    np.testing.assert_array_equal(np.sort(own[own != NO_ROW]), kept)
    group_of = {row: number for number, group in enumerate(groups) for row in group.tolist()}
    for chunk in own.reshape(-1, 4):
        there = chunk[chunk != NO_ROW].tolist()
        assert len(there) <= 2 or len({group_of[row] for row in there}) == 1
    words = picks.near(row_bytes // 4).reshape(steps, 2, 4, 2).transpose(0, 2, 1, 3)
    places = picked_places(words.reshape(steps, 4, 4), size, row_bytes)
    np.testing.assert_array_equal(places[own != NO_ROW], own[own != NO_ROW])


def tiling_of(workload: Gemm | FloatGemm, config: TileTwoFourConfig = LEAST) -> TileTwoFourTiling:
    operand = operand_of(workload)
    assert operand is not None
    return TileTwoFourTiling(operand, config)


def spread(tiling: TileTwoFourTiling, stages: np.ndarray) -> np.ndarray:
    """A tile's weight [columns, k] of its stages, by what PTX says of each lane's registers."""
    cut, size = tiling.cut, tiling.operand.size
    values = stages[:, : cut.places_at].view(np.uint32).reshape(len(stages), -1, 32, 4)
    metadata = stages[:, cut.places_at : cut.picks_at].view(np.uint32).reshape(len(stages), -1, 32)
    words = stages[:, cut.picks_at : cut.picks_at + 64].view(np.uint32).reshape(-1, 4, 4)
    rows = tiling.operand.rows(picked_places(words, size, tiling.operand.row_bytes))
    k = cut.atom.k
    found = np.zeros((cut.width, tiling.operand.view.k), element(cut.atom.a).dtype)
    for step, block in np.ndindex(len(stages), cut.width // 16):
        stored = np.zeros((16, k // 2), found.dtype)
        for lane, register in np.ndindex(32, 4):
            row, first = lane // 4 + register % 2 * 8, register // 2 * 16 + lane % 4 * 4
            kept = from_words(values[step, block, lane, register], cut.atom.a)
            stored[row, first // size : first // size + 4 // size] = kept
        for row, chunk in np.ndindex(16, k // 4):
            # Of bytes lanes 0 and 1 of four have the first halves of rows g and g + 8, of floats a
            # lane has four chunks of both, and two of four lanes are an instruction's.
            if size == 1:
                lane, at = row % 8 * 4 + row // 8 + chunk // 8 * 2, chunk % 8
            else:
                lane, at = row % 8 * 4 + block % 2 * 2 + chunk // 4, row // 8 * 4 + chunk % 4
            bits = int(metadata[step, block // size, lane]) >> 4 * at & 15
            first, second = bits & 3, bits >> 2
            assert first < second, "places in order"
            column = 16 * block + 2 * (row % 8) + row // 8
            for number, place in enumerate((first, second)):
                value, own = stored[row, 2 * chunk + number], rows[step, 4 * chunk + place]
                assert own != NO_ROW or value == 0
                found[column, own] += value  # a row that is picked twice has a weight of 0 once
    return found


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


@pytest.mark.parametrize("sparsity", [0.0, 0.2, 0.6, 0.95, 1.0])
@pytest.mark.parametrize("workload", [BYTES, FLOATS, BRAIN], ids=str)
def test_stages_hold_the_weight(workload: Gemm | FloatGemm, sparsity: float) -> None:
    """Kept values, their metadata and what is picked for them give the weight again."""
    known, (_, constants) = masked(workload, 40, sparsity, 3)
    tiling, weight = tiling_of(known), constants["weight"]
    values, tiles, *_ = TEMPLATE.pack(known, LEAST, constants)
    found = np.zeros_like(weight)
    every = sorted(known.sparsity.tiles_of(weight), key=lambda tile: -len(tile.rows))
    for number, tile in enumerate(every):
        first, count = tiles[number, :2]
        own = spread(tiling, values[first : first + count])
        found[tile.columns] = own[: len(tile.columns)]
        assert not own[len(tile.columns) :].any()
        nonzero = weight[np.ix_(tile.columns, tile.rows)].T != 0
        assert len(group_starts(nonzero)) <= known.sparsity.beside.longest_row
    np.testing.assert_array_equal(found, weight)


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (replace(BYTES, m=300, k=2080), TileTwoFourConfig(256, 1, 8, 4, 3, False)),
        (replace(BYTES, m=300, k=2080), TileTwoFourConfig(128, 2, 4, 4, 3)),
        (replace(FLOATS, m=70, k=1040), TileTwoFourConfig(64, 2, 4, 2, 4, False)),
        (replace(BYTES, m=70, k=32), TileTwoFourConfig(64, 2, 4, 2, 3)),
        (replace(BYTES, k=4096, in_dtype="uint8", sparsity=FEW), TileTwoFourConfig(64, 2, 4, 3, 4)),
        (replace(BYTES, k=48, epilogue=Epilogue("int32")), TileTwoFourConfig(128, 1, 8, 2, 6)),
        (
            replace(BYTES, weight_dtype="uint8", epilogue=Epilogue("uint8", table=True)),
            TileTwoFourConfig(64, 1, 4, 2, 3),
        ),
        (
            replace(BYTES, n=301, epilogue=Epilogue("float16", row_scale=True, float_bias=True)),
            TileTwoFourConfig(128, 1, 4, 2, 3),
        ),
        (
            replace(BYTES, n=92, epilogue=Epilogue("uint8", "int8", True)),
            TileTwoFourConfig(64, 1, 4, 6, 3),
        ),
        (replace(FLOATS, m=200, k=1040), TileTwoFourConfig(128, 1, 4, 4, 4, False)),
        (replace(FLOATS, residual=True, bias=True), TileTwoFourConfig(64, 1, 4, 2, 4)),
        (replace(FLOATS, n=250, x_scale=True), TileTwoFourConfig(128, 1, 8, 3, 3)),
        (BRAIN, TileTwoFourConfig(64, 1, 4, 2, 3)),
    ],
    ids=[
        "long", "sides", "sides of floats", "narrow rows", "few", "sums", "table", "row scales",
        "residual", "floats", "residual of floats", "scales of x", "bfloat16",
    ],
)  # fmt: skip
def test_outputs_are_right(workload: Gemm | FloatGemm, config: TileTwoFourConfig) -> None:
    assert TEMPLATE.matches(workload, TARGET)
    assert TEMPLATE.space(workload, TARGET).rejection(config) is None
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


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


@needs_nvcc
@pytest.mark.parametrize("x_stages", [2, 4])
@pytest.mark.parametrize("of_first", [0.0, 0.4, 1.0])
def test_sides_that_keep_other_rows_wait_for_each_other(of_first: float, x_stages: int) -> None:
    known, case = apart(of_first)
    config = TileTwoFourConfig(64, 2, 4, x_stages, 3)
    assert config in TEMPLATE.space(known, TARGET)
    assert_right_emulated(TEMPLATE, known, config, TARGET, case=case)


@pytest.mark.gpu
def test_sides_that_keep_other_rows_on_a_gpu() -> None:
    known, case = apart(0.4)
    configs = [TileTwoFourConfig(64, 2, 4, x_stages, 3) for x_stages in (2, 3, 6)]
    assert_right(TEMPLATE, known, [(one, TARGET) for one in configs], gpu_target(), case=case)


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


@needs_nvcc
@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_random_masks_and_sizes(seed: int, sparsity: float) -> None:
    seed += 4 * int(10 * sparsity)
    workload, case = masked(*drawn(seed, 220), sparsity, seed)
    (config,) = TEMPLATE.space(workload, TARGET).sample(np.random.default_rng(seed), 1)
    assert_right_emulated(TEMPLATE, workload, config, TARGET, case=case)


@pytest.mark.gpu
@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.7, 0.9, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_random_masks_on_a_gpu(seed: int, sparsity: float) -> None:
    """Kernels for sm_80, on whatever GPU is there."""
    workload, case = masked(*drawn(seed + 20, 900), sparsity, seed)
    some = TEMPLATE.space(workload, TARGET).sample(np.random.default_rng(seed), 2)
    configs = [TEMPLATE.default(workload, TARGET), *some]
    assert_right(TEMPLATE, workload, [(one, TARGET) for one in configs], gpu_target(), case=case)


def test_what_it_declines() -> None:
    for arch in ("sm_80", "sm_86", "sm_89"):
        assert TEMPLATE.matches(BYTES, parse_target(f"cuda:{arch}"))
        assert TEMPLATE.matches(FLOATS, parse_target(f"cuda:{arch}"))
    assert not any(
        TEMPLATE.matches(BYTES, parse_target(f"cuda:{arch}")) for arch in ("sm_75", "sm_90a")
    )
    others = (
        BYTES.dense, replace(BYTES, k=200), replace(BYTES, epilogue=Epilogue("int4")),
        replace(BYTES, sparsity=replace(CLASS, granularity=512)),
        replace(BYTES, sparsity=CLASS.tiles_alone),
        Conv2d(2, 7, 9, 64, 100, 3, 3, padding=(1, 1, 1, 1), sparsity=CLASS),
    )  # fmt: skip
    assert not any(TEMPLATE.matches(workload, TARGET) for workload in others)
