"""Shared memory of the mma.sync products: no two threads of an access meet in a bank."""

from __future__ import annotations

import numpy as np
import pytest

from autoq.templates.cuda.mixed.mma_sync.config import Conform, MixedSyncConfig
from autoq.templates.cuda.mixed.mma_sync.tiling import UNIT_BYTES, MixedSyncTiling, unit_offset
from autoq.templates.cuda.mixed.widening import Widening
from autoq.templates.operators.float_gemm import FloatGemm

BANKS = 32
LANES = np.arange(32)
CONFIG = MixedSyncConfig(
    64, 64, 64, 2, 2, 2, 1, 1, Widening.PERMUTE, Conform.OFFLINE, False, 1
)  # fmt: skip


@pytest.mark.parametrize("row_bytes", [32, 64, 128, 256])
def test_a_matrix_of_eight_rows_meets_all_banks(row_bytes: int) -> None:
    units = row_bytes // UNIT_BYTES
    rows = np.arange(64).reshape(8, 8)
    places = unit_offset(row_bytes, rows[:, None], np.arange(units)[:, None])
    assert sorted(places.reshape(-1)) == list(range(0, 64 * row_bytes, UNIT_BYTES))
    groups = np.sort(places // UNIT_BYTES % (BANKS * 4 // UNIT_BYTES), axis=-1)
    assert (groups == np.arange(8)).all()


def banks(addresses: np.ndarray, words: int) -> np.ndarray:
    """Sorted banks that each part of a warp's access touches: 32 words at a time."""
    touched = addresses[:, None] // 4 + np.arange(words)
    return np.sort(touched.reshape(-1, BANKS) % BANKS, axis=-1)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("out_dtype", ["float16", "float32"])
def test_results_are_staged_without_conflicts(out_dtype: str, left: bool) -> None:
    workload = FloatGemm(64, 64, 64, out_dtype=out_dtype, weight_left=left)
    tiling = MixedSyncTiling(workload, CONFIG)
    pitch, row, quarter = tiling.result_pitch, LANES // 4, LANES % 4
    if out_dtype == "float16":
        found = banks(row * pitch + quarter * 4, 1)
    elif left:
        found = banks(row * pitch + quarter * 8, 2)
    else:
        found = banks(quarter * 2 * pitch + row * 4, 1)
    assert (found == np.arange(BANKS)).all()
    assert pitch % UNIT_BYTES == 0
