"""Sparse products on the CPU against the numpy reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cpu_kernels import check, host, run

from autoq.measure.check import complaint
from autoq.templates.cpu.sparse.config import SparseCpuConfig
from autoq.templates.cpu.sparse.spmm_direct import TEMPLATE as DIRECT
from autoq.templates.cpu.sparse.spmm_vnni import TEMPLATE as VNNI
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import Target

CLASS = Structure(320, 28, 64)
RESIDUAL = Epilogue("uint8", "int8", True)

# Rows and columns with tails, every pair of signs and vector length, a class of empty matrices.
CASES = (
    (Spmm(59, 70, 130, 8, CLASS), None),
    (Spmm(70, 33, 130, 32, replace(CLASS, blocks=64)), None),
    (Spmm(59, 33, 130, 4, CLASS, "uint8", "uint8", RESIDUAL), SparseCpuConfig(4, 2, True)),
    (
        Spmm(31, 16, 130, 2, CLASS, "int8", "uint8", Epilogue("int32")),
        SparseCpuConfig(16, 1, False),
    ),
    (
        Spmm(
            16,
            50,
            9,
            8,
            Structure(0, 0, 0),
            "uint8",
            epilogue=Epilogue("float16", float_bias=True, activation="gelu"),
        ),
        None,
    ),
)


FLOATS = (
    (
        Spmm(59, 70, 130, 8, CLASS, "float16", "float16", Epilogue("float16", "float16")),
        SparseCpuConfig(4, 2, True),
    ),
    (Spmm(61, 33, 130, 32, CLASS, "bfloat16", "bfloat16", Epilogue("float32")), None),
    (Spmm(16, 33, 130, 2, CLASS, "float16", "float16", Epilogue("bfloat16")), None),
)


@pytest.mark.parametrize(("workload", "config"), CASES, ids=str)
def test_every_template_is_exact(workload: Spmm, config: SparseCpuConfig | None) -> None:
    case = workload.random_case(np.random.default_rng(2))
    for template in (DIRECT, VNNI):
        if template.matches(workload, host()):
            assert config is None or config in template.space(workload, host())
            check(template, workload, *case, config)


@pytest.mark.parametrize(("workload", "config"), FLOATS, ids=str)
def test_sums_of_floats_are_within_their_tolerance(
    workload: Spmm, config: SparseCpuConfig | None
) -> None:
    activations, constants = workload.random_case(np.random.default_rng(2))
    (expected,) = workload.reference(activations, constants)
    chosen = config or DIRECT.default(workload, host())
    found = run(DIRECT, workload, chosen, activations, constants, host())
    assert complaint(found, expected, workload, host()) is None
    assert complaint(found + 1, expected, workload, host()) is not None


def test_few_columns_take_narrow_vectors() -> None:
    for columns in (1, 7):
        workload = replace(CASES[0][0], n=columns)
        check(DIRECT, workload, *workload.random_case(np.random.default_rng(2)))


def test_vnni_takes_whole_vectors_of_columns_where_there_is_vnni() -> None:
    wide = CASES[0][0]
    target = Target("cpu", "znver5", units=2, vnni=True, avx512=True)
    assert VNNI.matches(wide, target) and not VNNI.matches(replace(wide, n=15), target)
    assert not VNNI.matches(wide, Target("cpu", "haswell", units=2, avx2=True))


def test_floats_are_left_to_the_kernel_that_widens_them() -> None:
    floats = replace(
        CASES[0][0], in_dtype="float16", weight_dtype="float16", epilogue=Epilogue("float16")
    )
    target = Target("cpu", "znver5", units=2, vnni=True, avx512=True, avx2=True)
    assert DIRECT.matches(floats, target) and not VNNI.matches(floats, target)
    assert not DIRECT.matches(floats, replace(target, avx2=False))
