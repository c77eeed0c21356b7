"""Targets as numbers: which have 4-bit tensor cores, and what that does to the roofline."""

from __future__ import annotations

import pytest

from autoq.templates.target import parse_target


@pytest.mark.parametrize(
    ("arch", "times"), [("sm_75", 2), ("sm_80", 2), ("sm_89", 2), ("sm_90a", 1)]
)
def test_four_bits_are_twice_as_fast_where_tensor_cores_have_them(arch, times):
    target = parse_target(f"cuda:{arch}")
    operations = 10**12
    eight, four = (target.roofline_seconds({name: operations}, 0) for name in ("int8", "uint4"))
    assert eight == operations / target.int8_rate
    assert four == eight / times


def test_bytes_bound_the_roofline_as_well():
    target = parse_target("cuda:sm_80")
    assert target.roofline_seconds({"int4": 1}, 10**9) == 10**9 / target.memory_rate
