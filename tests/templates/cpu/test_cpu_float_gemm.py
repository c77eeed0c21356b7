"""Products of 16-bit floats on the CPU against the numpy reference."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from cpu_kernels import HASWELL, host, run, run_function
from tvm.script.ir_builder import tirx as T

from autoq.measure.check import complaint
from autoq.templates.cpu.floats import narrowed, widened
from autoq.templates.cpu.frame import kernel_frame
from autoq.templates.cpu.mixed.float_gemm_cpu import TEMPLATE, MixedCpuConfig
from autoq.templates.cpu.vector import load, store
from autoq.templates.epilogue.activation import LEAST_FACTOR
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target

CASES = (
    (FloatGemm(7, 33, 40), None),
    (FloatGemm(20, 130, 321, "bfloat16", "int8", "bfloat16", bias=True, activation="gelu"), None),
    (FloatGemm(5, 20, 96, "float16", "int4", "float32", 32, True, activation="gelu_tanh"), None),
    (FloatGemm(9, 50, 64, "bfloat16", "bfloat16", activation="silu", weight_left=True), (4, 3)),
    (FloatGemm(3, 48, 100, "float16", "float16", activation="relu", bias=True), (2, 2)),
    (FloatGemm(13, 17, 130, "float16", "uint8", zero_points=True), (6, 1)),
    (FloatGemm(1, 64, 128, "bfloat16", "uint4", group=64), (1, 4)),
)


@pytest.mark.parametrize(("workload", "tile"), CASES, ids=lambda item: str(item).replace(" ", "-"))
def test_within_the_operators_bound(workload, tile):
    stays_within(workload, tile, host())


@pytest.mark.skipif(not host().avx2, reason="needs AVX2")
@pytest.mark.parametrize("number", [1, 2])
def test_within_the_operators_bound_without_avx512(number):
    stays_within(*CASES[number], HASWELL)


def stays_within(workload, tile, target):
    """Compares every element with the reference."""
    activations, constants = workload.random_case(np.random.default_rng(6))
    config = TEMPLATE.default(workload, target)
    if tile:
        block = min(workload.m, 5)
        config = MixedCpuConfig(config.lanes, min(tile[0], block), tile[1], block, 32)
    y = run(TEMPLATE, workload, config, list(activations), constants, target)
    (expected,) = workload.reference(activations, constants)
    assert complaint(y, expected, workload, target) is None


@pytest.mark.parametrize("activation", LEAST_FACTOR)
def test_an_activation_of_infinities_is_its_limit(activation):
    workload = FloatGemm(1, 19, 8, out_dtype="float32", bias=True, activation=activation)
    activations, constants = workload.random_case(np.random.default_rng(6))
    constants["bias"][:3] = -np.inf, np.inf, np.nan
    y = run(TEMPLATE, workload, TEMPLATE.default(workload, host()), list(activations), constants)
    for values in (y, *workload.reference(activations, constants)):
        np.testing.assert_allclose(values[0, :3], [0, np.inf, np.nan], atol=1e-6)


@pytest.mark.parametrize("features", [{}, {"avx2": True}, {"avx2": True, "avx512": True}], ids=str)
def test_the_default_is_legal_on_every_cpu(features):
    target = Target("cpu", "x86-64", units=4, **features)
    for workload, _ in CASES:
        config = TEMPLATE.default(workload, target)
        assert TEMPLATE.space(workload, target).rejection(config) is None


def test_every_bfloat16_comes_back_and_ties_go_to_even():
    bits = np.arange(1 << 16, dtype=np.uint16)
    exact = bits.view(ml_dtypes.bfloat16).astype(np.float32)
    halves = (bits.astype(np.uint32) << 16 | 0x8000).view(np.float32)
    x = np.concatenate([exact, halves])
    with kernel_frame(x=(x.shape, "float32"), y=(x.shape, "float32")) as frame:
        source, target = frame["x"], frame["y"]
        with T.serial(0, x.size // 16) as index:
            value = narrowed(load(source, index * 16, 16), "bfloat16", 16)
            store(target, index * 16, widened(value, "bfloat16", 16), 16)
    y = run_function(frame.result, [x], x.shape, "float32")
    with np.errstate(invalid="ignore"):
        expected = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(y, expected)
