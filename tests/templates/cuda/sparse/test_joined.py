"""Short vectors joined to longer ones: what is packed, and outputs on the emulator."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.sparse.wgmma import spmm_wgmma
from autoq.templates.cuda.sparse.wgmma.spmm_joined import (
    TEMPLATE,
    JoinedConfig,
    expected,
    joined,
)
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

WORKLOAD = Spmm(150, 144, 150, 8, Structure(640, 48, 96))
TARGET = parse_target("cuda:sm_90a")
FEW_UNITS = replace(TARGET, units=3)
"""On which blocks take several tiles of y one after another."""


@pytest.mark.parametrize("rows", [32, 128])
@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_joined_vectors_hold_every_matrix(rows: int, seed: int) -> None:
    config = JoinedConfig(1, 1, 32, 2, vector=rows)
    _, constants = WORKLOAD.random_case(np.random.default_rng(seed))
    values, _, starts, lengths, *_ = TEMPLATE.constants(WORKLOAD, config, constants)
    assert (starts + -(-lengths // 32)).max() <= len(values)
    dense = WORKLOAD.matrix(constants).to_dense()
    whole = np.zeros((-(-150 // rows) * rows, 150), bool)
    whole[:150] = dense != 0
    named = whole.reshape(-1, rows, 150).any(axis=1).sum(axis=1)
    assert sorted(lengths) == sorted(named)


def test_columns_at_random_are_expected() -> None:
    large = Spmm(4096, 256, 4096, 8, Structure.of(np.full(512, 2048)))
    assert expected(large, 16).longest == 3072
    assert joined(large, 16).longest == 4096


def test_each_length_has_the_rules_of_its_own_product() -> None:
    """Of the values of knobs that tell lengths apart, all combinations."""
    space = TEMPLATE.space(WORKLOAD, TARGET)
    knobs = {"blocks_per_unit": (1, 3), "stages": (2, 6, 12), "whole_stages": (True,)}
    found = set(space.restricted(knobs).enumerate())
    own: dict[int, set[JoinedConfig]] = {}
    for length in space.knobs["vector"]:
        of_long = spmm_wgmma.space(joined(WORKLOAD, length), TARGET)
        few = of_long.restricted({**knobs, "cluster": (1,), "turns_back": (False,)})
        own[length] = {JoinedConfig(**asdict(one), vector=length) for one in few.enumerate()}
    assert found == set().union(*own.values())
    assert len({len(configs) for configs in own.values()}) > 1


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (WORKLOAD, JoinedConfig(1, 1, 32, 2, vector=32)),
        (
            replace(WORKLOAD, vector=2, structure=Structure(640, 12, 48), in_dtype="uint8"),
            JoinedConfig(2, 1, 64, 3, 1, 1, False, persistent=True, vector=64),
        ),
        (
            replace(WORKLOAD, n=400, epilogue=Epilogue(uniform=True)),
            JoinedConfig(1, 2, 64, 2, bulk=4, persistent=True, vector=128),
        ),
        (
            replace(
                WORKLOAD, in_dtype="float16", weight_dtype="float16", epilogue=Epilogue("float16")
            ),
            JoinedConfig(1, 1, 32, 3, vector=64),
        ),
        (replace(WORKLOAD, structure=Structure(0, 0, 0)), JoinedConfig(1, 1, 32, 3, vector=32)),
    ],
    ids=["bytes", "vectors of two rows", "of one scale", "floats", "empty"],
)
def test_outputs_are_right(workload: Spmm, config: JoinedConfig) -> None:
    target = FEW_UNITS if config.persistent else TARGET
    assert config in TEMPLATE.space(workload, target)
    assert_right_emulated(TEMPLATE, workload, config, target)


def test_vectors_of_128_rows_are_not_joined() -> None:
    assert TEMPLATE.matches(replace(WORKLOAD, vector=64), TARGET)
    assert not TEMPLATE.matches(replace(WORKLOAD, vector=128), TARGET)
    assert not TEMPLATE.matches(WORKLOAD, parse_target("cuda:sm_89"))
