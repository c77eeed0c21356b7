"""Columns of how a configuration's work falls on multiprocessors."""

from __future__ import annotations

import numpy as np
import pytest

from autoq.knowledge.balance import balance


def columns(units: int = 132, **features: float) -> dict[str, float]:
    found = balance({name: np.array([float(value)]) for name, value in features.items()}, units)
    return {name: float(column[0]) for name, column in found}


def test_the_busiest_multiprocessor_of_blocks_that_do_not_fill_a_second_wave():
    found = columns(blocks=140, useful=0.5, threads=128, block_m=64, block_n=32)
    assert found["busiest.blocks"] == 2
    assert found["busiest.even"] == pytest.approx(140 / 264)
    # Two blocks instead of an equal share of 140 / 132, and half of what they compute is padding.
    assert 2 ** found["busiest.log2(work)"] == pytest.approx(2 / (140 / 132) / 0.5)
    assert found["busiest.warps"] == 8
    assert 2 ** found["busiest.log2(outputs)"] == 2 * 64 * 32


def test_blocks_that_share_a_multiprocessor_do_not_halve_its_work():
    alone, shared = (columns(blocks=112, useful=1, blocks_per_sm=n) for n in (1, 2))
    assert alone == shared


def test_bytes_are_those_of_the_work_with_its_waste():
    features = {
        "pixel_waste": 1.1, "channel_waste": 1.2, "k_waste": 1.0, "wave_efficiency": 0.8,
        "waves": 2.4, "intensity": 64, "stages": 4, "stage_bytes": 1000, "blocks_per_unit": 2,
    }  # fmt: skip
    found = columns(**features)
    assert 2 ** found["busiest.log2(work)"] == pytest.approx(1.1 * 1.2 / 0.8)
    assert 2 ** found["busiest.log2(fill)"] == pytest.approx(1.1 * 1.2 / 0.8 / 64)
    assert found["whole_waves"] == 3
    assert found["under_way_bytes"] == 8000
    assert columns(**{**features, "waves": 2.0})["whole_waves"] == 2


def test_a_template_without_such_features_has_no_columns():
    assert columns(block_m=64, block_n=64, waves=1.5) == {}
