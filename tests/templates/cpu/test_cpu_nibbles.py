"""Products of floats with weights of 4 bits on the CPU against the numpy reference."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_kernels import HASWELL, host, run

from autoq.measure.check import complaint
from autoq.templates.cpu.mixed.config import MixedCpuConfig
from autoq.templates.cpu.mixed.float_gemm_nibbles import TEMPLATE
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.registry import matching
from autoq.templates.target import Target

ANY = Target("cpu", "x86-64", units=2)
"""A CPU of four lanes."""
AVX512 = Target("cpu", "znver4", units=2, avx2=True, avx512=True)

CASES = (
    FloatGemm(1, 64, 128, "float32", "int4", "float32", 32),
    FloatGemm(7, 33, 40, "float32", "uint4", "float32", activation="silu"),
    FloatGemm(5, 70, 101, "float32", "int4", "float32", bias=True, zero_points=True),
    FloatGemm(9, 50, 96, "bfloat16", "uint4", "bfloat16", 24, True, weight_left=True),
    FloatGemm(2, 130, 384, "float16", "int4", "float16", 128, True, True, "gelu"),
    FloatGemm(37, 19, 520, "float32", "uint4", "float32", 8, bias=True),
    FloatGemm(1, 3, 5, "float32", "int4", "float32"),
    FloatGemm(1, 24, 1000, "bfloat16", "uint4", "float32", zero_points=True, activation="relu"),
)


def stays_within(workload, target, config=None):
    """Compares every element with the reference."""
    activations, constants = workload.random_case(np.random.default_rng(3))
    config = config or TEMPLATE.default(workload, target)
    assert TEMPLATE.space(workload, target).rejection(config) is None
    y = run(TEMPLATE, workload, config, list(activations), constants, target)
    (expected,) = workload.reference(activations, constants)
    assert complaint(y, expected, workload, target) is None


@pytest.mark.parametrize("workload", CASES, ids=str)
def test_within_the_operators_bound(workload):
    stays_within(workload, host())


@pytest.mark.skipif(not host().avx2, reason="needs AVX2")
@pytest.mark.parametrize("workload", CASES[2:5], ids=str)
def test_within_the_operators_bound_without_avx512(workload):
    stays_within(workload, HASWELL)


@pytest.mark.parametrize("workload", (CASES[1], CASES[5]), ids=str)
def test_within_the_operators_bound_on_any_cpu(workload):
    stays_within(workload, ANY)


@pytest.mark.parametrize("number", [2, 4, 5])
def test_every_sampled_configuration_is_right(number):
    space = TEMPLATE.space(CASES[number], host())
    for config in space.sample(np.random.default_rng(number), 2):
        stays_within(CASES[number], host(), config)


def test_many_threads_share_a_row():
    """Fewer columns than the cores have vectors, and shares that are no whole tiles each."""
    workload = FloatGemm(1, 100, 64, "float32", "int4", "float32", 32)
    target = Target("cpu", host().arch, units=9, avx2=host().avx2)
    stays_within(workload, target)


def test_a_constant_row_of_x_is_as_right_as_any():
    """What stored values are too large by is the row's sum times 8, the largest that it can be."""
    workload = FloatGemm(3, 40, 512, "float32", "int4", "float32", 64)
    (x,), constants = workload.random_case(np.random.default_rng(5))
    x[:] = [[1000.0], [1e-3], [0.0]]
    config = TEMPLATE.default(workload, host())
    y = run(TEMPLATE, workload, config, [x], constants, host())
    exact = x.astype(np.float64) @ workload.dequantised(constants).astype(np.float64).T
    assert not y[2].any()
    for found, right in zip(y[:2], exact[:2], strict=True):
        assert np.abs(found - right).max() <= 1e-5 * np.sqrt(np.mean(right**2))


@pytest.mark.parametrize("zero_points", [False, True])
def test_weights_are_packed_two_a_byte(zero_points):
    workload = FloatGemm(4, 32, 64, "float32", "int4", "float32", 32, zero_points)
    _, constants = workload.random_case(np.random.default_rng(1))
    config = MixedCpuConfig(8, 4, 2, 4, 32)
    weight, *_ = TEMPLATE.constants(workload, config, constants)
    assert weight.nbytes == 32 * 64 // 2
    words = weight.view(np.uint32).reshape(2, 8, 16)
    for value in range(8):
        found = (words >> 4 * value & 15).transpose(0, 2, 1).reshape(32, 8).astype(np.int16) - 8
        np.testing.assert_array_equal(found, np.asarray(constants["weight"])[:, value::8])


def test_other_weights_and_groups_are_left_to_others():
    for workload in (
        FloatGemm(4, 32, 60, "float32", "int4", "float32", 20),
        FloatGemm(4, 32, 64, "float32", "int8", "float32", 32),
    ):
        assert [template.name for template in matching(workload, host())] == ["float_gemm_cpu"]
    for changed in ({"residual": True}, {"batch": 2}, {"x_scale": True}):
        assert not matching(FloatGemm(4, 32, 64, "float32", "int4", **changed), host())
    halves = FloatGemm(4, 32, 64, "float16", "int4")
    assert not TEMPLATE.matches(halves, ANY)  # conversions of float16 came with AVX2


@pytest.mark.parametrize("target", [ANY, HASWELL, AVX512], ids=lambda target: target.arch)
def test_the_default_is_legal_on_every_cpu(target):
    for workload in (*CASES, FloatGemm(1000, 4096, 4096, "float32", "int4", "float32", 128)):
        if TEMPLATE.matches(workload, target):
            config = TEMPLATE.default(workload, target)
            assert TEMPLATE.space(workload, target).rejection(config) is None
