"""Products with single weights on the CPU, alone and beside tiles, against the numpy reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cpu_kernels import check, host

from autoq.templates.cpu.elements.gemm_elements_cpu import TEMPLATE as ELEMENTS
from autoq.templates.cpu.tile_wise.gemm_tiles_and_elements_direct import TEMPLATE as DIRECT
from autoq.templates.cpu.tile_wise.gemm_tiles_and_elements_vnni import TEMPLATE as VNNI
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.patterns.tiles_and_elements import parted
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import Target

SINGLE = Sparsity("ew", 1, 256, Structure(1280, 5, 20), Structure(1024, 32, 80))
BESIDE = Sparsity("tew", 64, 160, Structure(320, 112, 112), Structure(640, 4, 10))
WORKLOAD = Gemm(37, 301, 200, sparsity=SINGLE)
EPILOGUES = (
    {},
    {"in_dtype": "uint8", "epilogue": Epilogue("uint8", "int8", True)},
    {"epilogue": Epilogue("float32", row_scale=True, float_bias=True)},
    {"weight_dtype": "uint8", "epilogue": Epilogue("int32")},
    {"in_dtype": "float32", "weight_dtype": "float32", "epilogue": Epilogue("float32", "float32")},
    {"m": 1, "n": 90},
)


# Tiles finish their outputs as those of `test_cpu_tile_wise` do.
CASES = [*((SINGLE, each) for each in EPILOGUES), *((BESIDE, EPILOGUES[at]) for at in (0, 4, 5))]


@pytest.mark.parametrize(("sparsity", "changes"), CASES, ids=str)
def test_every_template_is_exact(sparsity: Sparsity, changes: dict[str, object]) -> None:
    workload = replace(WORKLOAD, sparsity=sparsity, **changes)
    case = workload.random_case(np.random.default_rng(2))
    taken = [each for each in (ELEMENTS, DIRECT, VNNI) if each.matches(workload, host())]
    assert (ELEMENTS if sparsity is SINGLE else DIRECT) in taken
    for template in taken:
        check(template, workload, *case, None)


@pytest.mark.parametrize("rows", [1, 2])
def test_tasks_of_several_vectors(rows: int) -> None:
    workload = replace(WORKLOAD, m=40)
    case = workload.random_case(np.random.default_rng(2))
    config = replace(ELEMENTS.default(workload, host()), lanes_of_rows=rows)
    assert config in ELEMENTS.space(workload, host())
    check(ELEMENTS, workload, *case, config)


@pytest.mark.parametrize("kept", [0.0, 0.2])
def test_weights_without_values_and_with_about_as_many_as_it_takes(kept: float) -> None:
    rng = np.random.default_rng(3)
    values, constants = WORKLOAD.dense.random_case(rng)
    constants["weight"] = np.where(rng.random((301, 200)) < kept, 3, 0).astype(np.int8)
    workload = replace(WORKLOAD, sparsity=Sparsity.of_elements(constants["weight"]))
    check(ELEMENTS, workload, values, constants, None)


def test_random_weights_have_tiles_and_single_values() -> None:
    _, constants = replace(WORKLOAD, sparsity=BESIDE).random_case(np.random.default_rng(2))
    tiles, single = parted(constants["weight"], 64)
    assert np.count_nonzero(tiles) > 10000 and np.count_nonzero(single) > 400


def test_what_they_decline() -> None:
    server = Target("cpu", "znver5", units=2, vnni=True, avx512=True, avx2=True)
    beside = replace(WORKLOAD, sparsity=BESIDE)
    assert DIRECT.matches(beside, server) and VNNI.matches(beside, server)
    assert not VNNI.matches(replace(beside, weight_dtype="uint8"), server)
    full = Sparsity.of_elements(np.ones((301, 200), np.int8))
    assert not ELEMENTS.matches(replace(WORKLOAD, sparsity=full), server)
    for other in (WORKLOAD.dense, replace(WORKLOAD, epilogue=Epilogue("int8", table=True))):
        assert not any(each.matches(other, server) for each in (ELEMENTS, DIRECT, VNNI))
