"""What follows integer products on the CPU, whole outputs compared."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from cpu_kernels import host, run, small_tile
from workloads.products import GROUPED_PRODUCTS, PRODUCTS

from autoq.measure.check import complaint
from autoq.templates.cpu.conv import conv2d_direct, conv2d_pairs, conv2d_vnni
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.target import Target, parse_target

AVX2 = Target("cpu", "haswell", units=2, avx2=True)
SSE = Target("cpu", "x86-64", units=2)
TEMPLATES = {
    "vnni": (conv2d_vnni.TEMPLATE, None),
    "pairs": (conv2d_pairs.TEMPLATE, AVX2),
    "direct": (conv2d_direct.TEMPLATE, SSE),
}


def compare(name: str, workload: Gemm, small: bool = False) -> None:
    """small: of a small tile in place of the default."""
    template, target = TEMPLATES[name]
    target = target or host()
    if not (host().avx2 and (host().vnni or name != "vnni")):
        pytest.skip("this CPU has no such instructions")
    assert template.matches(workload, target)
    activations, constants = workload.random_case(np.random.default_rng(0))
    config = template.default(workload, target)
    if small:
        config = small_tile(template, workload, target)
    y = run(template, workload, config, list(activations), constants, target)
    (expected,) = workload.reference(activations, constants)
    assert complaint(y, expected, workload, target) is None
    if (
        workload.epilogue.activation in ("none", "relu")
        and workload.epilogue.residual_dtype is None
    ):
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("case", range(len(PRODUCTS)))
def test_every_epilogue(case):
    compare(("vnni", "pairs")[case % 2], PRODUCTS[case], small=case > 1)


@pytest.mark.parametrize("case", [1, 4, 5, 8])
def test_a_lesser_cpu(case):
    compare("direct", PRODUCTS[case])


@pytest.mark.parametrize("case", range(len(GROUPED_PRODUCTS)))
def test_groups_of_scales(case):
    compare(("direct", "vnni", "pairs")[case], GROUPED_PRODUCTS[case])


def test_a_row_of_bfloat16_residuals():
    compare("vnni", Gemm(3, 37, 20, epilogue=Epilogue("bfloat16", "bfloat16")))


def test_conversions_of_float16_need_avx2():
    workload = Gemm(5, 20, 32, epilogue=Epilogue("float16"))
    assert not matching(workload, SSE) and matching(workload, AVX2)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_75", None])
def test_convolutions_have_no_such_epilogue(arch):
    target = AVX2 if arch is None else parse_target(f"cuda:{arch}")
    conv = Conv2d(2, 8, 8, 32, 32, 3, 3, (1, 1), (1, 1, 1, 1))
    for change in ({}, {"groups": 32}, {"groups": 2}, {"r": 1, "s": 1, "padding": (0, 0, 0, 0)}):
        plain = dataclasses.replace(conv, **change)
        assert matching(plain, target)
        for epilogue in (
            Epilogue(row_scale=True),
            Epilogue(float_bias=True),
            Epilogue("float16"),
            Epilogue("float32", scale_group=8),
        ):
            assert not matching(dataclasses.replace(plain, epilogue=epilogue), target)
