"""Nibbles on tensor cores that take them: the steps against the matrix, and outputs."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.sparse.config import GROUP, NibbleTiling, PanelConfig
from autoq.templates.cuda.sparse.pack import pack_schedule
from autoq.templates.cuda.sparse.spmm_nibbles import TEMPLATE
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.spmm import Spmm
from autoq.templates.registry import matching
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

WORKLOAD = Spmm(61, 64, 150, 4, Structure(448, 28, 96), "int4", "int4")
TARGET = parse_target("cuda:sm_86")


@pytest.mark.parametrize(("dtype", "columns"), [("int4", 32), ("int16", 64)])
def test_steps_hold_the_matrix(dtype: str, columns: int) -> None:
    workload = replace(WORKLOAD, weight_dtype=dtype)
    tiling = NibbleTiling(workload, PanelConfig(columns, 4, 2, 2))
    _, constants = workload.random_case(np.random.default_rng(1))
    values, at, starts, rows, *_ = pack_schedule(tiling, constants)
    words = values.view(np.uint8).reshape(len(values), -1, GROUP, 4, 2, 4)
    nibbles = np.stack([words & 15, words >> 4], axis=-1).astype(np.int64)
    nibbles[:, -1] -= 16 * (nibbles[:, -1] > 7)  # the highest digit has the sign
    numbers = sum(nibbles[:, i] << 4 * i for i in range(nibbles.shape[1]))
    # A lane's nibbles: rows 2t and 2t + 1 of two eights in the lower halves, then of two others.
    vectors = numbers.reshape(-1, GROUP, 4, 2, 2, 2, 2).transpose(0, 3, 6, 4, 2, 5, 1)
    columns_of = at.reshape(-1, 32, 2).swapaxes(1, 2).reshape(-1, 64) // (columns // 32)
    found = np.zeros((150, 8, GROUP), np.int64)
    for row, (start, stop) in zip(rows, itertools.pairwise(starts), strict=True):
        for step in range(start, stop):
            np.add.at(found[:, row // GROUP], columns_of[step], vectors[step].reshape(64, GROUP))
    dense = workload.matrix(constants).to_dense()
    np.testing.assert_array_equal(found.reshape(150, -1).T[:61], dense)


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (WORKLOAD, PanelConfig(32, 4, 2, 2)),
        (
            replace(WORKLOAD, n=96, in_dtype="uint4", weight_dtype="int8", vector=8),
            PanelConfig(64, 8, 1, 2, copies=True, streamed=True),
        ),
        (
            Spmm(17, 160, 700, 8, Structure(640, 224, 640), "int4", "uint16", Epilogue("int32")),
            PanelConfig(64, 4, 1, 2),
        ),
        (replace(WORKLOAD, structure=Structure(0, 0, 0)), PanelConfig(32, 4, 1, 1)),
    ],
    ids=["L4-R4", "L8-R4", "L16-R4", "empty"],
)
def test_outputs_are_right(workload: Spmm, config: PanelConfig) -> None:
    assert config in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


def test_it_is_the_untuned_choice_where_tensor_cores_take_nibbles() -> None:
    large = Spmm(4096, 4096, 4096, 8, Structure(262144, 448, 448), "int4", "int8")
    for arch, first in (("sm_80", True), ("sm_89", True), ("sm_90a", False)):
        chosen = matching(large, parse_target(f"cuda:{arch}"))[0]
        assert (chosen.name == TEMPLATE.name) == first
    # Bytes of all rows of b would not fit this GPU's shared memory.
    assert TEMPLATE.default(large, TARGET).staged
    assert not TEMPLATE.matches(replace(large, n=4080), TARGET)
    assert not TEMPLATE.matches(replace(large, in_dtype="int8"), TARGET)
