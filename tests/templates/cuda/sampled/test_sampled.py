"""The sampled product's items against the places they stand for, and its outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.sampled.config import TILE, SampledConfig
from autoq.templates.cuda.sampled.sddmm_gathered import TEMPLATE
from autoq.templates.operators.sddmm import Sddmm
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

CLASS = Structure(224, 28, 80)
WORKLOAD = Sddmm(61, 150, 64, 8, CLASS)
TARGET = parse_target("cuda:sm_80")


@pytest.mark.parametrize("stride", [0, 16])
@pytest.mark.parametrize("tiles", [1, 2])
def test_items_cover_every_place_once(stride: int, tiles: int) -> None:
    workload = replace(WORKLOAD, stride=stride)
    config = SampledConfig(tiles, 4, 1, False)
    _, constants = workload.random_case(np.random.default_rng(1))
    items, columns, *_ = TEMPLATE.constants(workload, config, constants)
    taken = np.zeros(workload.places, int)
    found = set()
    for row, first, vectors, places in items:
        assert 0 <= vectors <= places <= TILE * tiles
        taken[first : first + places] += 1
        found |= {(row // 8, columns[first + i]) for i in range(vectors)}
    assert (taken == 1).all()
    mask = workload.mask(constants)
    assert found == set(zip(mask.vector_row_of, mask.indices, strict=True))


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (replace(WORKLOAD, k=33, stride=16), SampledConfig(2, 4, 1, False)),
        (replace(WORKLOAD, vector=4, k=200, a_dtype="uint8"), SampledConfig(2, 2, 2, True)),
        (
            replace(WORKLOAD, vector=2, k=66, a_dtype="uint16", b_dtype="int16",
                    out_dtype="float32", stride=8),
            SampledConfig(1, 2, 2, False),
        ),
        (
            replace(WORKLOAD, k=258, a_dtype="uint4", b_dtype="int4", out_dtype="bfloat16"),
            SampledConfig(4, 4, 1, True),
        ),
        (
            replace(WORKLOAD, k=35, a_dtype="bfloat16", b_dtype="bfloat16", out_dtype="float16"),
            SampledConfig(1, 16, 2, False),
        ),
        (replace(WORKLOAD, structure=Structure(0, 0, 0)), SampledConfig(1, 4, 1, True)),
        (replace(WORKLOAD, structure=Structure(1280, 160, 160)), SampledConfig(8, 1, 1, True)),
        (replace(WORKLOAD, structure=Structure(80, 10, 80)), SampledConfig(2, 8, 1, True)),
    ],
    ids=["SR-BCRS", "V4", "L16-R16", "L4-R4", "bfloat16", "empty", "full", "one row"],
)  # fmt: skip
def test_outputs_are_right(workload: Sddmm, config: SampledConfig) -> None:
    assert config in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)
