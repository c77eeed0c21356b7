"""The panel kernel's steps against the matrix they were packed from, and its outputs."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.kernel import compile_kernel
from autoq.templates.cuda.sparse.config import GROUP, STEP, PanelConfig, PanelTiling
from autoq.templates.cuda.sparse.pack import dealt, pack_schedule, places, second_place
from autoq.templates.cuda.sparse.spmm_online import TEMPLATE as ONLINE
from autoq.templates.cuda.sparse.spmm_online import OnlineConfig
from autoq.templates.cuda.sparse.spmm_panel import TEMPLATE
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.spmm import Spmm
from autoq.templates.registry import matching
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

WORKLOAD = Spmm(61, 64, 150, 4, Structure(448, 28, 96))
TARGET = parse_target("cuda:sm_80")


def columns_of(tiling: PanelTiling, places_of: np.ndarray) -> np.ndarray:
    """The rows of b at some rows of the panel, of which the last ones are copies."""
    columns = places_of.astype(np.int64)
    if tiling.copied_rows:
        rows = np.arange(tiling.copied_rows)
        copies = dict(zip(second_place(tiling, rows).tolist(), rows.tolist(), strict=True))
        assert min(copies) >= tiling.first_copy and len(copies) == tiling.copied_rows
        columns = np.array([copies.get(place, place) for place in columns.tolist()])
    return columns


def test_second_places_even_out_what_is_read_at_once() -> None:
    workload = Spmm(64, 32, 800, 8, Structure(1280, 160, 160))
    _, constants = workload.random_case(np.random.default_rng(1))
    conflicts = []
    for copies in (False, True):
        tiling = PanelTiling(workload, PanelConfig(32, 4, 1, 2, copies=copies))
        at, starts = pack_schedule(tiling, constants)[1:3]
        banks = at[: starts[-1]].reshape(-1, 8) % 8
        conflicts.append(np.mean([np.bincount(eight).max() for eight in banks]))
    assert conflicts[1] < 1.05 < 1.2 < conflicts[0]


@pytest.mark.parametrize("columns", [32, 64, 128])
@pytest.mark.parametrize(("parts", "warps", "copies"), [(1, 4, False), (3, 8, False), (1, 4, True)])
def test_steps_hold_the_matrix(columns: int, parts: int, warps: int, copies: bool) -> None:
    tiling = PanelTiling(WORKLOAD, PanelConfig(columns, warps, parts, 2, copies=copies))
    _, constants = WORKLOAD.random_case(np.random.default_rng(1))
    values, at, starts, rows, runs, firsts = pack_schedule(tiling, constants)
    found = np.zeros((150, 8, GROUP), np.int32)
    bytes_of = values.view(np.int8).reshape(-1, GROUP, 4, 2, 2, 2)
    # A lane's bytes are of rows 2t and 2t + 1 of the first eight of a half, then of the second.
    vectors = bytes_of.transpose(0, 3, 4, 2, 5, 1)
    for row, (start, stop) in zip(rows, itertools.pairwise(starts), strict=True):
        for step in range(start, stop):
            own = vectors[step].reshape(STEP, GROUP)
            rows_of_b = columns_of(tiling, at[step] // (columns // 16))
            np.add.at(found[:, row // GROUP], rows_of_b, own)
    found = found.reshape(150, -1).T
    np.testing.assert_array_equal(found[:61], WORKLOAD.matrix(constants).to_dense())
    assert starts[-1] <= tiling.steps and (np.diff(starts[:-1]) > 0).all()
    np.testing.assert_array_equal(runs[1:, 0], runs[:-1, -1])
    assert np.ptp(np.diff(runs, axis=1), axis=1).max() <= 1
    assert (starts[firsts] <= runs[:, :-1]).all() and sorted(rows[:-1]) == list(range(0, 64, 8))


def test_rows_of_eight_columns_lie_in_different_banks() -> None:
    """Whichever chunk of 16 bytes is read of rows that differ modulo 8."""
    columns = np.array([[12, 5, 2, 19, 9, 6, 15, 24]])
    for width in (32, 64, 128):
        found = places(PanelTiling(WORKLOAD, PanelConfig(width, 4, 1, 2)), columns)
        assert (found // (width // 16) == columns).all()
        for chunk in range(width // 16):
            assert len(np.unique((found ^ chunk) % 8)) == 8


def test_groups_are_dealt_evenly_and_all_of_them() -> None:
    steps = np.array([9, 1, 1, 7, 2, 3, 1, 4])
    order, parts = dealt(steps, 3)
    assert sorted(order) == list(range(8))
    loads = np.bincount(parts, steps[order])
    assert loads.max() <= 10 and (np.diff(parts) >= 0).all()


def test_more_groups_than_the_class_has_vectors_still_get_steps() -> None:
    empty = replace(WORKLOAD, structure=Structure(0, 0, 0))
    tiling = PanelTiling(empty, PanelConfig(32, 4, 1, 1))
    _, constants = empty.random_case(np.random.default_rng(1))
    starts = pack_schedule(tiling, constants)[2]
    assert starts.tolist() == [*range(9), 8] and tiling.steps == 8


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        # A row that is longer than all others together goes through the runs of many warps.
        (
            Spmm(17, 40, 700, 8, Structure(640, 224, 640), epilogue=Epilogue(uniform=True)),
            PanelConfig(32, 16, 1, 3),
        ),
        (Spmm(17, 40, 70, 2, Structure(0, 0, 0), "uint8"), PanelConfig(32, 4, 2, 2)),
        (replace(WORKLOAD, n=80), PanelConfig(64, 4, 2, 1, copies=True)),
        (
            replace(WORKLOAD, n=48, in_dtype="int4"),
            PanelConfig(32, 4, 2, 1, copies=True, streamed=True),
        ),
        (replace(WORKLOAD, n=75, epilogue=Epilogue("int32")), PanelConfig(64, 4, 2, 1, False)),
        (
            replace(WORKLOAD, n=76, epilogue=Epilogue("float16")),
            PanelConfig(64, 4, 2, 1, False, streamed=True),
        ),
        (replace(WORKLOAD, n=131, in_dtype="uint8"), PanelConfig(128, 8, 1, 2)),
        (replace(WORKLOAD, in_dtype="int16", weight_dtype="int16"), PanelConfig(64, 4, 2, 2)),
        (replace(WORKLOAD, n=65, in_dtype="int4", weight_dtype="uint16"), PanelConfig(32, 4, 1, 2)),
        (replace(WORKLOAD, n=66, in_dtype="uint16"), PanelConfig(32, 4, 1, 1, False)),
        (
            Spmm(17, 40, 700, 8, Structure(640, 224, 640), "int16", "int16"),
            PanelConfig(16, 24, 1, 3, copies=True),
        ),
    ],
    ids=[
        "long row of one scale",
        "empty",
        "copies",
        "copies of nibbles",
        "unstaged",
        "streamed halves",
        "odd columns",
        "L16-R16",
        "L16-R4",
        "L8-R16",
        "16 columns",
    ],
)
def test_outputs_are_right(workload: Spmm, config: PanelConfig) -> None:
    assert config in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


@needs_nvcc
def test_untuned_choices_of_large_products_spill_nothing() -> None:
    """Blocks of 32 warps, whose threads have 64 registers."""
    workload = Spmm(4096, 4096, 4096, 8, Structure(229376, 448, 448))
    config = TEMPLATE.default(workload, TARGET)
    kernel = compile_kernel(TEMPLATE.build(workload, config, TARGET), TARGET)
    assert config.warps == 32 and kernel.spill_bytes == 0


@needs_nvcc
@pytest.mark.parametrize(
    ("dense", "values", "columns", "config"),
    [
        ("int4", "int8", 64, PanelConfig(32, 4, 2, 2, False)),
        ("uint4", "int4", 68, PanelConfig(64, 4, 1, 1, False)),
        ("int4", "int16", 144, PanelConfig(128, 4, 1, 1, False)),
    ],
    ids=["L8-R4", "fours", "L16-R4"],
)
def test_nibbles_are_widened_where_they_are_gathered(
    dense: str, values: str, columns: int, config: PanelConfig
) -> None:
    workload = replace(WORKLOAD, n=columns, in_dtype=dense, weight_dtype=values)
    assert config in TEMPLATE.space(workload, TARGET)
    assert config not in TEMPLATE.space(replace(workload, n=columns + 2), TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


HALVES = replace(WORKLOAD, in_dtype="float16", weight_dtype="float16", epilogue=Epilogue("float16"))
BRAINS = replace(
    WORKLOAD, in_dtype="bfloat16", weight_dtype="bfloat16", epilogue=Epilogue("bfloat16")
)


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (
            replace(HALVES, m=17, k=700, vector=8, structure=Structure(640, 224, 640)),
            PanelConfig(16, 16, 1, 4, copies=True),
        ),
        (replace(HALVES, structure=Structure(0, 0, 0)), PanelConfig(32, 4, 2, 2)),
        (
            replace(
                BRAINS, n=75, vector=2, epilogue=Epilogue("float32", "bfloat16", float_bias=True)
            ),
            PanelConfig(64, 4, 2, 1),
        ),
        (replace(BRAINS, n=66), PanelConfig(64, 8, 1, 2, False)),
        (
            Spmm(8, 9, 40, 8, Structure(1, 1, 1), "float16", "float16", Epilogue("float16")),
            PanelConfig(32, 4, 1, 1, False),
        ),
    ],
    ids=["long row", "empty", "residual", "unstaged", "one vector"],
)
def test_products_of_floats_are_right(workload: Spmm, config: PanelConfig) -> None:
    assert config in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


def test_steps_of_floats_hold_the_matrix() -> None:
    tiling = PanelTiling(HALVES, PanelConfig(32, 4, 1, 2))
    _, constants = HALVES.random_case(np.random.default_rng(1))
    values, at, starts, rows, *_ = pack_schedule(tiling, constants)
    # Of each half: a lane's column, rows 2t and 2t + 1 of the first eight, then of the second.
    halves = values.view(np.float16).reshape(-1, 2, GROUP, 4, 2, 2).transpose(0, 1, 4, 3, 5, 2)
    found = np.zeros((150, 8, GROUP), np.float32)
    for row, (start, stop) in zip(rows, itertools.pairwise(starts), strict=True):
        for step in range(start, stop):
            own = halves[step].reshape(STEP, GROUP).astype(np.float32)
            np.add.at(found[:, row // GROUP], at[step] // 4, own)
    dense = HALVES.matrix(constants).to_dense().astype(np.float32)
    np.testing.assert_array_equal(found.reshape(150, -1).T[:61], dense)


def test_narrow_panels_are_of_two_bytes_and_staged() -> None:
    for workload, staged, legal in (
        (WORKLOAD, True, False), (HALVES, True, True), (HALVES, False, False),
    ):  # fmt: skip
        config = PanelConfig(16, 4, 1, 1, staged)
        assert (config in TEMPLATE.space(workload, TARGET)) == legal


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (replace(WORKLOAD, n=144, weight_dtype="int16"), OnlineConfig(128, padded=False)),
        (replace(WORKLOAD, n=48, in_dtype="int4"), OnlineConfig(64, ahead=False)),
    ],
    ids=["L16-R8", "L8-R4 not ahead"],
)
def test_magicubes_way_is_right(workload: Spmm, config: OnlineConfig) -> None:
    assert config in ONLINE.space(workload, TARGET)
    assert not ONLINE.matches(replace(workload, n=24), TARGET)
    assert_right_emulated(ONLINE, workload, config, TARGET)


def test_the_untuned_choice_of_short_vectors_has_the_least_estimate() -> None:
    hopper = parse_target("cuda:sm_90a")
    small = Spmm(1024, 256, 1152, 8, Structure(7168, 56, 112))
    large = Spmm(4096, 4096, 4096, 8, Structure(262144, 448, 448))
    full = Spmm(4096, 256, 4608, 8, Structure.of(np.full(512, 2304)))
    all_of_them = {"spmm_panel", "spmm_online", "spmm_split", "spmm_joined"}
    for workload, first in ((small, "spmm_split"), (large, "spmm_panel"), (full, "spmm_joined")):
        found = matching(workload, hopper)
        assert {one.name for one in found} == all_of_them
        assert found[0].name == first
        seconds = [t.estimate(workload, t.default(workload, hopper), hopper) for t in found]
        assert seconds[0] == min(seconds)


@needs_nvcc
@pytest.mark.parametrize("epilogue", [Epilogue(), Epilogue(uniform=True), Epilogue("int32")])
def test_warps_go_through_more_groups_than_lanes_hold_the_ends_of(epilogue: Epilogue) -> None:
    workload = Spmm(1203, 32, 80, 8, Structure(640, 4, 40), epilogue=epilogue)
    config = PanelConfig(32, 4, 1, 2)
    _, constants = workload.random_case(np.random.default_rng(7))
    firsts = pack_schedule(PanelTiling(workload, config), constants)[5]
    assert np.diff(firsts.reshape(-1)).min() > 32 and (firsts.reshape(-1)[1:] % 32).any()
    assert_right_emulated(TEMPLATE, workload, config, parse_target("cuda:sm_90a"))
