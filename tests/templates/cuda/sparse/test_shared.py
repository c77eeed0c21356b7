"""Steps that two groups share: what is packed, and outputs on the emulator."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.sparse.config import GROUP, STEP, PanelConfig, PanelTiling
from autoq.templates.cuda.sparse.pack import pack_schedule, shared_slots
from autoq.templates.cuda.sparse.spmm_panel import TEMPLATE
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

WORKLOAD = Spmm(130, 48, 150, 8, Structure(640, 40, 96))
TARGET = parse_target("cuda:sm_90a")


def test_a_step_has_two_groups_at_most_and_one_part() -> None:
    rng = np.random.default_rng(2)
    for longest in (3, 40, 200):
        lengths, parts = rng.integers(0, longest, 50), np.sort(rng.integers(0, 3, 50))
        slots = shared_slots(lengths, parts, STEP)
        assert (np.diff(slots) >= np.maximum(1, lengths)).all() and slots[-1] % STEP == 0
        ends = slots[:-1] + np.maximum(1, lengths)
        for step in range(slots[-1] // STEP):
            there = (slots[:-1] < (step + 1) * STEP) & (ends > step * STEP)
            assert 1 <= there.sum() <= 2 and len(set(parts[there])) == 1
        # No longer than steps of their own.
        assert slots[-1] // STEP <= np.maximum(1, -(-lengths // STEP)).sum()


@pytest.mark.parametrize(("parts", "warps", "copies"), [(1, 4, False), (3, 8, False), (1, 4, True)])
def test_steps_hold_the_matrix(parts: int, warps: int, copies: bool) -> None:
    config = PanelConfig(32, warps, parts, 2, copies=copies, shares=True)
    tiling = PanelTiling(WORKLOAD, config)
    _, constants = WORKLOAD.random_case(np.random.default_rng(1))
    values, at, starts, rows, runs, firsts = pack_schedule(tiling, constants)
    bytes_of = values.view(np.int8).reshape(-1, GROUP, 4, 2, 2, 2)
    vectors = bytes_of.transpose(0, 3, 4, 2, 5, 1).reshape(-1, GROUP).astype(np.int32)
    columns = at.reshape(-1).astype(np.int64) // 2
    if copies:  # the second places of eights are turned
        eight, low = columns // 8 % 19, columns % 8
        turned = np.where(eight % 8 == 7, 4, 1 + eight % 8)
        columns = np.where(columns < 152, columns, eight * 8 + (low - turned) % 8)
    found = np.zeros((-(-130 // GROUP), 152, GROUP), np.int32)
    for row, (start, stop) in zip(rows, itertools.pairwise(starts[:-1]), strict=False):
        np.add.at(found[row // GROUP], columns[start:stop], vectors[start:stop])
    dense = found.transpose(0, 2, 1).reshape(-1, 152)[:130, :150]
    np.testing.assert_array_equal(dense, WORKLOAD.matrix(constants).to_dense())
    assert starts[-1] // STEP <= tiling.steps and sorted(rows[:-1]) == list(range(0, 136, 8))
    assert (starts[firsts] <= runs[:, :-1] * STEP).all()


def test_rows_that_are_read_together_differ_across_groups() -> None:
    workload = Spmm(256, 32, 800, 8, Structure(2560, 80, 96))
    _, constants = workload.random_case(np.random.default_rng(1))
    tiling = PanelTiling(workload, PanelConfig(32, 4, 1, 2, copies=True, shares=True))
    at, starts = pack_schedule(tiling, constants)[1:3]
    banks = (at[: starts[-1] // STEP] // 2).reshape(-1, 8) % 8
    assert np.mean([np.bincount(eight).max() for eight in banks]) < 1.1


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (WORKLOAD, PanelConfig(32, 4, 2, 2, shares=True)),
        (
            replace(WORKLOAD, n=80, epilogue=Epilogue(uniform=True)),
            PanelConfig(64, 8, 1, 1, copies=True, shares=True),
        ),
        # A row that is longer than all others together goes through the runs of many warps.
        (
            Spmm(57, 40, 700, 8, Structure(768, 112, 640), in_dtype="int4"),
            PanelConfig(32, 16, 1, 3, shares=True),
        ),
        (
            Spmm(200, 40, 70, 2, Structure(160, 2, 8), "uint8", epilogue=Epilogue("int32")),
            PanelConfig(32, 8, 1, 2, shares=True),
        ),
        (
            replace(WORKLOAD, structure=Structure(0, 0, 0), epilogue=Epilogue("float16")),
            PanelConfig(32, 4, 2, 2, shares=True),
        ),
    ],
    ids=["bytes", "one scale", "a long row of nibbles", "few vectors", "empty"],
)
def test_outputs_are_right(workload: Spmm, config: PanelConfig) -> None:
    assert config in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


def test_steps_of_other_values_and_from_the_l2_are_not_shared() -> None:
    space = TEMPLATE.space(replace(WORKLOAD, weight_dtype="int16"), TARGET)
    assert PanelConfig(32, 4, 2, 2, shares=True) not in space
    assert PanelConfig(64, 4, 2, 1, False, shares=True) not in TEMPLATE.space(WORKLOAD, TARGET)
