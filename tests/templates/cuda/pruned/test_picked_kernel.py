"""The tile-wise kernel that picks: what it picks, its arrays, and outputs on the emulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from picked_workloads import BYTES, CLASS, EMPTY, FLOATS, PIXELS, TARGET
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.device.turned.fragment_source import BYTE_ORDER
from autoq.templates.cuda.device.turned.row_steps import STAGE_K, most_blocks, row_steps
from autoq.templates.cuda.pruned.picked.config import PickedConfig, PickedTiling
from autoq.templates.cuda.pruned.picked.gemm_tile_picked import TEMPLATE
from autoq.templates.cuda.pruned.picked.operand import operand_of
from autoq.templates.cuda.pruned.picked.pack import pack_schedule
from autoq.templates.cuda.pruned.picked.picks import pick_rows
from autoq.templates.cuda.pruned.picked.steps import NO_ROW
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure

WIDE = Sparsity("tw", 128, 320, Structure(512, 192, 320))


def picked_values(words: np.ndarray, size: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Which value of a row each place of each step holds, and how many stages have begun."""
    values, begun = [], 0
    began = []
    for number, step in enumerate(words):
        advance = np.unique(step >> 28 & 7)  # what all lanes are told
        assert len(advance) == 1 and (number % depth == 0 or not advance[0])
        assert (step >> 31 == step[:1] >> 31).all()
        begun += int(advance[0])
        assert begun > 0
        stage_of = {(begun - 1) & 1: begun - 1, begun & 1: begun - 2}
        row = []
        for half in range(2):
            for lane in range(4):
                word = int(step[lane, half])
                both = [
                    stage_of[word >> at + 5 & 1] * 128 + (word >> at & 31) * 4 for at in (16, 22)
                ]
                nibbles = [word >> 4 * byte & 15 for byte in range(4)]
                assert not word >> 31 or max(nibbles) < 4  # the second word is not read
                row += [both[n // 4] + n % 4 for n in nibbles]
        values.append(np.array(row)[::size] // size)
        began.append(begun)
    return np.array(values), np.array(began)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("k", [16, 416, 4096])
@pytest.mark.parametrize("depth", [2, 4])
def test_words_pick_what_is_kept(size: int, share: float, k: int, depth: int) -> None:
    kept = np.flatnonzero(np.random.default_rng(3).random(k) < share)
    stages = -(-k * size // 128)
    picks = pick_rows(kept, size, stages, 128, depth)
    found = picks.rows[picks.rows != NO_ROW]
    np.testing.assert_array_equal(np.sort(found), kept)
    values, began = picked_values(picks.near(32), size, depth)
    there = picks.rows != NO_ROW
    np.testing.assert_array_equal(values[there], picks.rows[there])
    assert began[-1] <= stages and depth <= len(picks.rows) <= stages * 4
    assert len(picks.rows) % depth == 0
    # Places that are not needed read stages that are there too.
    assert (values >= 0).all() and (values * size // 128 < began[:, None]).all()


def test_most_places_of_dense_tiles_are_filled() -> None:
    """A step starts where the one before ends, in the stage or in the next one."""
    for size, share, least in [(1, 0.7, 0.97), (1, 0.5, 0.94), (2, 0.5, 0.97), (2, 0.3, 0.85)]:
        kept = np.flatnonzero(np.random.default_rng(4).random(4096) < share)
        assert len(kept) / pick_rows(kept, size, 32 * size, 128, 2).rows.size > least


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("ring", [3, 8, 12])
def test_words_name_the_rows_of_steps(size: int, share: float, ring: int) -> None:
    """A lane names the row of the ring that holds its k, which has begun and has not been left."""
    kept = np.flatnonzero(np.random.default_rng(3).random(1040) < share)
    steps = row_steps(kept, size, 1040, ring)
    np.testing.assert_array_equal(np.sort(steps.rows[steps.rows != NO_ROW]), kept)
    assert len(steps.words) <= most_blocks(1040, size)
    words = steps.words.astype(np.int64)
    ends = np.cumsum(words[:, 0] >> 28)[:, None, None] * STAGE_K
    starts = np.cumsum(words[:, 0] >> 24 & 15)[:, None, None] * STAGE_K
    assert (ends - starts <= ring * STAGE_K).all() and (ends <= -(-1040 // STAGE_K) * STAGE_K).all()
    named = words[:, None] >> np.array([[0], [12]]) & 0xFFF
    k = starts + (named - starts) % (ring * STAGE_K)
    assert (k < ends).all()
    order = [*range(8), *range(16, 24)] if size == 2 else [*BYTE_ORDER, *np.add(16, BYTE_ORDER)]
    values = k[..., order].reshape(len(steps.rows), -1)
    there = steps.rows != NO_ROW
    np.testing.assert_array_equal(values[there], steps.rows[there])


def test_banks_of_four_lanes_are_mostly_different() -> None:
    """Words of one read by four lanes lie in different places of units of 16 bytes."""
    kept = np.flatnonzero(np.random.default_rng(4).random(4096) < 0.5)
    for size in (1, 2):
        words = pick_rows(kept, size, 32 * size, 128, 2).near(32)
        turns = []
        for at in (16, 22):
            place = words >> at & 63
            for lanes in place.transpose(0, 2, 1).reshape(-1, 4):
                distinct = np.unique(lanes)
                turns.append(np.bincount(distinct % 4).max())
        assert np.mean(turns) < 1.3


@pytest.mark.parametrize("workload", [BYTES, FLOATS], ids=str)
@pytest.mark.parametrize(
    "config",
    [
        PickedConfig(128, 2, 1, 3, 2, 3),
        PickedConfig(64, 1, 1, 3, 2, 3, joined=2),
        PickedConfig(64, 1, 1, 3, 2, 2, picked=False, columns=192),
        PickedConfig(64, 1, 1, 3, 2, 2, picked=False, columns=112),
    ],
)
def test_stages_hold_the_weight(workload: Gemm | FloatGemm, config: PickedConfig) -> None:
    operand = operand_of(workload)
    assert operand is not None
    tiling = PickedTiling(operand, config)
    _, constants = workload.random_case(np.random.default_rng(1))
    schedule = pack_schedule(tiling, constants)
    values, tiles, _ = schedule.arrays
    weight = np.asarray(constants["weight"])
    found = np.zeros((301, 1024), np.float64)
    for (first, count, *_), columns in zip(
        tiles, schedule.columns.reshape(tiling.tiles, -1), strict=True
    ):
        if not count:  # no tile at this side
            continue
        stages = values[first : first + count]
        own = np.ascontiguousarray(stages[:, : tiling.picks_at]).view(weight.dtype)
        # [steps, units, columns, values of a unit] to [steps, values, columns].
        steps = own.reshape(count * config.depth, 2, tiling.width, -1).transpose(0, 1, 3, 2)
        steps = steps.reshape(count * config.depth, -1, tiling.width).astype(np.float64)
        if config.picked:
            end = tiling.picks_at + config.depth * 32
            words = np.ascontiguousarray(stages[:, tiling.picks_at : end]).view(np.uint32)
            rows = picked_values(words.reshape(-1, 4, 2), tiling.size, config.depth)[0]
        else:
            rows = np.arange(steps.shape[0] * steps.shape[1]).reshape(steps.shape[:2])
        for row, step in zip(rows, steps, strict=True):
            np.add.at(found, np.ix_(columns, row), step.T)
    np.testing.assert_array_equal(found[:300, :416], weight.astype(np.float64))
    assert not found[300].any() and not found[:, 416:].any()


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (BYTES, PickedConfig(128, 2, 1, 3, 2, 3)),
        (FLOATS, PickedConfig(64, 1, 1, 3, 2, 3)),
        (replace(BYTES, m=200), PickedConfig(64, 3, 1, 4, 2, 3)),
        (replace(FLOATS, m=200, bias=True), PickedConfig(128, 2, 2, 3, 2, 3, cluster=2)),
        (replace(BYTES, m=150), PickedConfig(192, 1, 3, 3, 2, 3, joined=2)),
        (
            replace(BYTES, m=300, in_dtype="uint8", weight_dtype="uint8",
                    epilogue=Epilogue("int32")),
            PickedConfig(128, 1, 2, 3, 2, 3, joined=2, cluster=1),
        ),
        (replace(BYTES, epilogue=Epilogue("int8", table=True)), PickedConfig(64, 2, 1, 3, 2, 3)),
        (replace(BYTES, k=1040, m=70), PickedConfig(64, 2, 1, 3, 2, 3)),
        (replace(BYTES, k=96), PickedConfig(64, 2, 1, 3, 2, 3)),
        (replace(BYTES, sparsity=EMPTY), PickedConfig(64, 1, 1, 3, 2, 3)),
        (replace(FLOATS, sparsity=EMPTY), PickedConfig(128, 1, 2, 3, 2, 3)),
        (BYTES, PickedConfig(64, 1, 1, 3, 4, 2, picked=False, columns=192)),
        (replace(BYTES, m=200), PickedConfig(128, 2, 1, 4, 2, 3, turned=True)),
        (replace(BYTES, m=200, k=1040), PickedConfig(128, 3, 1, 3, 2, 3, turned=True)),
        (replace(FLOATS, m=200), PickedConfig(64, 3, 1, 4, 2, 3, turned=True)),
        (replace(BYTES, sparsity=EMPTY), PickedConfig(128, 1, 1, 3, 2, 3, turned=True)),
        (replace(BYTES, m=200, n=600, sparsity=WIDE), PickedConfig(128, 3, 1, 4, 2, 4)),
        (replace(BYTES, m=200, n=600, sparsity=WIDE),
         PickedConfig(128, 3, 1, 8, 2, 5, turned=True)),
        (replace(BYTES, m=240), PickedConfig(128, 2, 1, 3, 2, 2, cluster=2, picked=False)),
        (replace(FLOATS, k=72), PickedConfig(128, 1, 2, 4, 2, 3, joined=2, picked=False)),
        (
            FloatGemm(70, 100, 80, "bfloat16", "bfloat16", "float32", activation="gelu_tanh",
                      sparsity=Sparsity("tw", 24, 60, Structure(96, 32, 64))),
            PickedConfig(64, 3, 1, 3, 2, 3),
        ),
        (
            replace(BYTES, epilogue=Epilogue("uint8", "int8", True)),
            PickedConfig(128, 2, 1, 3, 2, 3),
        ),
        (
            replace(BYTES, n=301, epilogue=Epilogue("float16", row_scale=True, float_bias=True)),
            PickedConfig(64, 2, 1, 3, 2, 3),
        ),
        (
            replace(FLOATS, residual=True, x_scale=True),
            PickedConfig(64, 1, 1, 3, 4, 2, joined=2, picked=False),
        ),
        (replace(BYTES, m=300), PickedConfig(128, 2, 1, 3, 2, 3, helped=True)),
        (
            replace(FLOATS, m=300, sparsity=replace(CLASS, granularity=56)),
            PickedConfig(128, 2, 1, 3, 2, 3, helped=True),
        ),
        (replace(BYTES, m=150), PickedConfig(128, 1, 2, 3, 2, 3, 2, 1, picked=False, helped=True)),
        (PIXELS, PickedConfig(64, 2, 1, 3, 2, 3)),
        (replace(PIXELS, r=1, s=1, padding=(0, 0, 0, 0), epilogue=Epilogue("int8", "int8")),
         PickedConfig(64, 2, 1, 3, 2, 3)),
        (replace(PIXELS, stride=(2, 2), c=96, in_dtype="uint8"), PickedConfig(64, 2, 1, 3, 2, 3)),
        (replace(PIXELS, dilation=(2, 1), padding=(0, 2, 0, 1), c=160),
         PickedConfig(64, 1, 1, 4, 2, 3)),
        (
            FloatConv2d(2, 7, 9, 48, 100, 3, 3, padding=(1, 1, 1, 1), bias=True, residual=True,
                        sparsity=PIXELS.sparsity),
            PickedConfig(64, 2, 1, 3, 2, 3),
        ),
        (PIXELS, PickedConfig(64, 2, 1, 2, 2, 3, bordered=True)),
        (
            replace(PIXELS, h=17, w=19, c=160, r=2, epilogue=Epilogue("int8", "int8")),
            PickedConfig(128, 1, 1, 2, 2, 3, bordered=True),
        ),
        (
            FloatConv2d(2, 18, 20, 16, 100, 3, 2, padding=(1, 1, 1, 1), sparsity=PIXELS.sparsity),
            PickedConfig(128, 1, 2, 3, 2, 3, bordered=True, blocks=2),
        ),
        (replace(PIXELS, c=32, r=1, s=2), PickedConfig(64, 2, 1, 4, 2, 3)),
        (replace(PIXELS, c=48), PickedConfig(128, 1, 2, 4, 2, 2, joined=2, picked=False)),
    ],
    ids=["bytes", "floats", "three sides", "cluster", "joined", "sums", "table", "long", "short",
         "empty", "empty floats", "whole", "turned", "turned long", "turned floats",
         "turned empty", "lean", "lean turned", "whole cluster", "whole floats", "bfloat16",
         "residual", "row scales", "float residual", "helped", "helped floats",
         "helped whole", "pixels", "pixels and residual", "strided", "dilated", "float pixels",
         "bordered", "bordered residual", "bordered floats", "few channels", "whole pixels"],
)  # fmt: skip
def test_outputs_are_right(workload: Gemm | FloatGemm, config: PickedConfig) -> None:
    assert config in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (replace(BYTES, m=300), PickedConfig(64, 2, 1, 3, 2, 3, teams=2)),
        (
            replace(FLOATS, m=250),
            PickedConfig(64, 1, 1, 3, 4, 3, picked=False, columns=112, cluster=2, teams=2),
        ),
        (replace(BYTES, m=300), PickedConfig(64, 2, 1, 3, 2, 3, helped=True)),
        (replace(FLOATS, m=250), PickedConfig(64, 2, 1, 4, 2, 4, cluster=2, helped=True)),
        (replace(FLOATS, m=150), PickedConfig(64, 1, 1, 3, 4, 2, 2, picked=False, helped=True)),
        (replace(BYTES, m=300), PickedConfig(256, 1, 2, 6, 2, 3, turned=True, teams=2)),
        (replace(FLOATS, m=250), PickedConfig(128, 1, 2, 4, 2, 4, 1, 2, helped=True, turned=True)),
    ],
    ids=["teams", "whole teams", "helped", "cluster", "whole", "turned teams", "turned cluster"],
)
def test_blocks_take_several_pieces_of_work(workload: Gemm, config: PickedConfig) -> None:
    """One of the sides has no tile in some of them, and teams have several each."""
    assert_right_emulated(TEMPLATE, workload, config, replace(TARGET, units=2))
