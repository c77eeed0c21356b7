"""Tile-wise products of the columns that are left, on the dense wgmma pipeline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from picked_workloads import BYTES, CLASS, EMPTY, FLOATS, TARGET
from ptx.kernels import FENCED, assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.wgmma.columns.compact import compact_of
from autoq.templates.cuda.wgmma.columns.gemm_columns_wgmma import TEMPLATE
from autoq.templates.cuda.wgmma.config import PERSISTENT, Grid, Shared, SplitTeam, WgmmaConfig
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure

FEW = replace(TARGET, units=2)
"""A target whose blocks take several tiles each."""
WHOLE = Sparsity("tw", 64, 320, Structure(2560, 448, 448))
"""Of weights without zeros."""
TOGETHER, IN_TURN = SplitTeam(2, True), SplitTeam(2, False)


def config(
    block_n: int, m_blocks: int = 1, team: SplitTeam = TOGETHER, **knobs: object
) -> WgmmaConfig:
    given = {
        "block_n": block_n, "row_bytes": 64, "per_stage": 1, "stages": 3, "team": team,
        "blocks_per_unit": 1, "grid": PERSISTENT, "group": 2, "channels_outer": True,
        "residual_early": False, "residual_ahead": False, "weights_stay": False,
        "m_blocks": m_blocks, "most_channels": 16,
    }  # fmt: skip
    return WgmmaConfig(**{**given, **knobs})


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (BYTES, config(64)),
        (BYTES, config(64, 2, IN_TURN)),
        (BYTES, config(64, 2, IN_TURN, tail_stages=2)),
        (replace(BYTES, sparsity=WHOLE), config(144, 1, IN_TURN)),
        (replace(BYTES, m=300), config(48, 3, SplitTeam(1, True))),
        (
            replace(BYTES, m=300, sparsity=WHOLE),
            config(80, stages=4, grid=Grid(True, 2, Shared.ACTIVATIONS)),
        ),
        (replace(BYTES, in_dtype="uint8"), config(32, 2, IN_TURN)),
        (replace(BYTES, epilogue=Epilogue("uint8")), config(64, 2, IN_TURN, early_loads=1)),
        (BYTES, config(64, 2, IN_TURN, stream_k=True)),
        (replace(BYTES, epilogue=Epilogue("int32")), config(32)),
        (replace(BYTES, epilogue=Epilogue("float16", float_bias=True)), config(48)),
        (replace(BYTES, epilogue=Epilogue("int8", uniform=True)), config(64, 2, IN_TURN)),
        (replace(BYTES, sparsity=EMPTY), config(16, group=8)),
    ],
    ids=str,
)
def test_outputs_are_right(workload: Gemm, config: WgmmaConfig) -> None:
    space = TEMPLATE.space(workload, FEW)
    assert config in space, space.rejection(config)
    assert_right_emulated(TEMPLATE, workload, config, FEW, FENCED)


def test_tiles_are_of_what_is_left() -> None:
    """The dense product has no more columns than the class, those of zeros at the end."""
    _, constants = BYTES.random_case(np.random.default_rng(2))
    compact = compact_of(BYTES)
    assert compact is not None
    columns = compact.columns_left(constants)
    weight = compact.pack(constants, 10, 16)[0]["weight"]
    assert len(columns) <= len(weight) == compact.columns < BYTES.n
    assert weight[: len(columns)].any(axis=1).all() and not weight[len(columns) :].any()


@pytest.mark.parametrize("columns", [1536, 3072])
def test_untuned_tiles_are_stored_while_others_are_multiplied(columns: int) -> None:
    """Where consumers share a tile, nothing is multiplied while its outputs become rows of y."""
    sparsity = Sparsity("tw", 128, columns, Structure(columns * 2048, 2048, 2048))
    assert TEMPLATE.default(Gemm(4096, 4096, 4096, sparsity=sparsity), TARGET).teams > 1


def test_what_it_cannot_compute() -> None:
    for other in (
        FLOATS,
        replace(BYTES, weight_dtype="uint8"),
        replace(BYTES, n=301),  # rows of y are no words
        replace(BYTES, epilogue=Epilogue("int8", "int8")),
        Gemm(100, 300, 416, sparsity=replace(CLASS, pattern="vectors")),
    ):
        assert not TEMPLATE.matches(other, TARGET)
