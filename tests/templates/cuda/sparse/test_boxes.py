"""The kernel over boxes of all rows of b: its stages against the matrix, and its outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.device.turned.fragment_source import BYTE_ORDER
from autoq.templates.cuda.device.turned.row_steps import DEPTH, STAGE_K
from autoq.templates.cuda.sparse.boxes.config import BoxesConfig, BoxesTiling
from autoq.templates.cuda.sparse.boxes.pack import pack_boxes
from autoq.templates.cuda.sparse.boxes.spmm_boxes import TEMPLATE
from autoq.templates.cuda.sparse.wgmma.spmm_wgmma import TEMPLATE as GATHERED
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
FEW_UNITS = replace(TARGET, units=6)
WORKLOAD = Spmm(330, 144, 700, 128, Structure(768, 256, 448))
FULL = replace(WORKLOAD, structure=Structure(2100, 700, 700))
EMPTY = replace(WORKLOAD, structure=Structure(0, 0, 0))


def rows_of_stages(tiling: BoxesTiling, stages: np.ndarray) -> np.ndarray:
    """Which row of b each value of a vector row's stages multiplies, [stages, DEPTH, values].

    What lanes name is a place of the ring; stages of boxes come and go as the words say.
    """
    ring = tiling.config.b_stages
    words = stages[:, tiling.values_bytes :].copy().view(np.uint32)
    begun, left, found = 0, 0, []
    for word in words:
        told = word[0] >> 24
        assert (word >> 24 == told).all()
        left, begun = left + int(told & 15), begun + int(told >> 4)
        assert left <= begun <= left + ring
        lanes = np.stack([word >> 12 * step & 0xFFF for step in range(DEPTH)]).astype(np.int64)
        stage = lanes // STAGE_K
        there = left + (stage - left) % ring  # the newest of that place
        assert (there < begun).all()
        rows = there * STAGE_K + lanes % STAGE_K
        found.append(rows.reshape(DEPTH, 2, 16)[:, :, list(BYTE_ORDER)].reshape(DEPTH, -1))
    return np.array(found)


@pytest.mark.parametrize("workload", [WORKLOAD, FULL, EMPTY], ids=str)
@pytest.mark.parametrize("b_stages", [4, 6, 13])
def test_stages_hold_the_matrix(workload: Spmm, b_stages: int) -> None:
    tiling = BoxesTiling(workload, BoxesConfig(2, 2, 1, b_stages, 2))
    _, constants = workload.random_case(np.random.default_rng(1))
    values, sides, *_ = pack_boxes(tiling, constants)
    stages = values.view(np.uint8)
    found = np.zeros((384, 704), np.int8)
    for first, count, row, _ in sides:
        own = stages[first : first + count]
        if not count:
            continue
        rows = rows_of_stages(tiling, own)
        units = own[:, : tiling.values_bytes].reshape(count, DEPTH, 2, 128, 16).view(np.int8)
        vectors = units.transpose(0, 1, 3, 2, 4).reshape(count, DEPTH, 128, 32)
        for stage, step in np.ndindex(count, DEPTH):
            for value, column in enumerate(rows[stage, step]):
                found[row * 128 : row * 128 + 128, column] += vectors[stage, step, :, value]
    assert sides[:, 1].astype(bool).sum() == workload.vector_rows
    assert (np.diff(sides[: workload.vector_rows, 1]) <= 0).all()
    np.testing.assert_array_equal(found[:330, :700], workload.matrix(constants).to_dense())
    assert not found[330:].any() and not found[:, 700:].any()


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (WORKLOAD, BoxesConfig(2, 2, 1, 4, 2, fragments=2)),
        (replace(WORKLOAD, n=272), BoxesConfig(1, 1, 2, 13, 2, fragments=2)),
        (FULL, BoxesConfig(1, 2, 2, 4, 2)),
        (EMPTY, BoxesConfig(2, 2, 1, 4, 2, fragments=2)),
        (replace(WORKLOAD, n=496), BoxesConfig(2, 2, 1, 4, 2, fragments=2, parted=True)),
        (
            replace(WORKLOAD, m=600, n=400, structure=Structure(1280, 256, 448)),
            BoxesConfig(2, 1, 2, 16, 3),
        ),
        (
            replace(WORKLOAD, in_dtype="uint8", weight_dtype="int8", epilogue=Epilogue("uint8")),
            BoxesConfig(1, 1, 2, 4, 4),
        ),
        (
            replace(WORKLOAD, epilogue=Epilogue("int8", uniform=True)),
            BoxesConfig(2, 1, 2, 4, 3, fragments=2),
        ),
        (replace(WORKLOAD, epilogue=Epilogue("int32")), BoxesConfig(2, 2, 1, 4, 2, fragments=2)),
        (
            replace(WORKLOAD, epilogue=Epilogue("float16", float_bias=True)),
            BoxesConfig(2, 1, 2, 4, 2),
        ),
        (
            replace(WORKLOAD, epilogue=Epilogue("int8", residual_dtype="int8")),
            BoxesConfig(2, 2, 1, 4, 2, fragments=2),
        ),
    ],
    ids=[
        "bytes", "ring of 13", "full", "empty", "parts", "several pieces", "unsigned",
        "one scale", "sums", "float bias", "residual",
    ],
)  # fmt: skip
def test_outputs_are_right(workload: Spmm, config: BoxesConfig) -> None:
    """Of blocks that take several pieces of work, the last groups of which lack vector rows."""
    assert TEMPLATE.matches(workload, FEW_UNITS)
    assert TEMPLATE.space(workload, FEW_UNITS).rejection(config) is None
    assert_right_emulated(TEMPLATE, workload, config, FEW_UNITS)


def test_vector_rows_that_share_boxes_come_first_where_they_have_half_of_all_rows() -> None:
    """And behind the kernel that gathers where they have few."""
    half = Spmm(4096, 4096, 4096, 128, Structure(65536, 2048, 2304))
    few = replace(half, structure=Structure(3328, 104, 128))
    other = GATHERED.preference_of(half, TARGET)
    assert TEMPLATE.preference_of(half, TARGET) > other
    assert TEMPLATE.preference_of(few, TARGET) < other
