"""Crossovers are measured once for a device and a class of shapes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from autoq.devices import Host
from autoq.products.kept_crossovers import crossover_of
from autoq.products.residual_crossover import (
    DENSITIES,
    crossing,
    densities_within,
    matrices,
    saves,
    threshold_of,
)
from autoq.residual.candidates import Block
from autoq.residual.crossover import DEFAULT_CROSSOVERS
from autoq.residual.setting import Setting
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.target import parse_target

CPU = Host(parse_target("cpu"), "a CPU")
WORKLOAD = ResidualGemm(100, 200, 300)


def test_a_crossover_is_measured_once_for_each_class(tmp_path: Path) -> None:
    measured: list[ResidualGemm] = []

    def measure(workload: ResidualGemm, host: Host) -> float:
        measured.append(workload)
        return 1 / (2 + len(measured))

    def found(host: Host = CPU, **changes: int) -> float:
        workload = dataclasses.replace(WORKLOAD, **changes)
        return crossover_of(workload, host, tmp_path, measure)

    assert found() == found() == found(m=127) == 1 / 3
    assert found(m=128) == 1 / 4
    assert found(bits=4) == 1 / 5
    assert found(dataclasses.replace(CPU, device="another CPU")) == 1 / 6
    assert found() == 1 / 3 and len(measured) == 4
    for entry in tmp_path.glob("*.crossover"):
        entry.write_bytes(entry.read_bytes()[:-1])
    assert found() == 1 / 7


def test_without_a_folder_the_target_says() -> None:
    assert crossover_of(WORKLOAD, CPU, None, lambda *given: 1 / 0) == DEFAULT_CROSSOVERS["cpu"]


def test_times_of_lists_meet_that_of_a_whole_side_between_two_densities() -> None:
    densities = (0.0, 0.1, 0.3)
    assert crossing(densities, (1.0, 2.0, 6.0), 4.0 / 0.95) == pytest.approx(0.2)
    assert crossing(densities, (1.0, 2.0, 6.0), 1.0) == 0.0
    assert crossing(densities, (1.0, 2.0, 6.0), 7.0) == 1.0


def test_lists_that_save_next_to_nothing_are_not_worth_their_error() -> None:
    assert crossing((0.0, 0.1, 0.3), (0.97, 1.0, 1.0), 1.0) == 0.0
    assert 0 < crossing((0.0, 0.1, 0.3), (0.8, 1.01, 0.99), 1.0) < 0.1
    assert saves(0.94, 1.0) and not saves(0.96, 1.0)


def test_densities_are_those_for_which_lists_have_room() -> None:
    assert densities_within(1.0) == DENSITIES
    assert densities_within(1 / 128) == pytest.approx((0.0, 1 / 256, 1 / 144))
    for room in (1 / 256, 1 / 16, 1 / 4):
        found = densities_within(room)
        assert list(found) == sorted(set(found)) and found[0] == 0.0
        assert 0.85 * room < found[-1] < 0.95 * room


@pytest.mark.parametrize(("order", "density"), [("kn", 1 / 16), ("nk", 1 / 2), ("kn", 0.0)])
def test_made_up_matrices_have_the_density(order: str, density: float) -> None:
    workload = ResidualGemm(120, 100, 300, b_order=order)
    a, b = matrices(workload, density, np.random.default_rng(0))
    block = Block.drawn(a, b if order == "kn" else b.T, 8, np.random.default_rng(0))
    assert a.shape == workload.a.shape and b.shape == workload.b.shape
    setting = Setting(8, "sparse", threshold_of(density), 1.0)
    assert block.candidate(setting).densities == pytest.approx((density, density), rel=0.1)
