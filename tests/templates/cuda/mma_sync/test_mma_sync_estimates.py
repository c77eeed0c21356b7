"""Estimates of the mma.sync convolution beside what was recorded, and what they choose untuned."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from recorded_times import RecordedTimes, rank_correlation, recorded_times

from autoq.templates.cuda.mma_sync.conv2d_mma_sync import TEMPLATE
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

NIBBLES = Conv2d(
    8, 28, 28, 96, 96, 3, 3, padding=(1, 1, 1, 1), in_dtype="int4", weight_dtype="int4",
    epilogue=Epilogue("int4"),
)  # fmt: skip


@functools.cache
def _of_nibbles() -> list[RecordedTimes]:
    return recorded_times(
        TEMPLATE, "H200", 100, lambda one: isinstance(one, Conv2d) and one.in_dtype == "int4"
    )


def test_there_are_spaces_of_nibbles():
    assert len(_of_nibbles()) >= 18


def test_estimates_of_nibbles_rank_as_the_hardware_does():
    """What a model drew is left out: all of it is fast, and its order says little of estimates."""
    found = [
        rank_correlation(one.estimates[~one.predicted], one.seconds[~one.predicted])
        for one in _of_nibbles()
    ]
    assert min(found) > 0.4
    assert np.mean(found) > 0.7


def test_the_least_estimates_of_nibbles_are_among_the_fast_ones():
    """Products of nibbles, which the compiler emulates on sm_90, take four times as long."""
    least = [
        (one.seconds[np.argsort(one.estimates)[:4]], one.seconds.min()) for one in _of_nibbles()
    ]
    assert max(seconds.max() / best for seconds, best in least) < 3
    assert max(seconds.min() / best for seconds, best in least) < 1.5


@pytest.mark.parametrize(("arch", "native"), [("80", True), ("86", True), ("90a", False)])
def test_nibbles_multiply_as_such_untuned_where_the_hardware_does(arch, native):
    config = TEMPLATE.default(NIBBLES, parse_target(f"cuda:sm_{arch}"))
    assert (config.compute == "s4") is native


def test_untuned_nibbles_are_unpacked_once_for_all_taps():
    config = TEMPLATE.default(NIBBLES, parse_target("cuda:sm_90a"))
    assert config.duplicates != "none"
