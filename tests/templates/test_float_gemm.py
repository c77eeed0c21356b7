"""What the reference of products of floats allows a kernel to be off by."""

from __future__ import annotations

import numpy as np
import pytest

from autoq.measure.check import complaint
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")


def rounded_toward_zero(values: np.ndarray) -> np.ndarray:
    """float64 with the 24 significant bits of a float32."""
    return (values.view(np.int64) & ~((1 << 29) - 1)).view(np.float64)


@pytest.mark.parametrize("k", [512, 1 << 18])
def test_sums_as_tensor_cores_round_them_are_right(k: int) -> None:
    workload = FloatGemm(16, 4, k, out_dtype="float32")
    (x,), constants = workload.random_case(np.random.default_rng(2))
    x = np.abs(x)  # and weights above zero: running sums are as large as they can be
    constants["weight"] = np.abs(constants["weight"].astype(np.int16)).clip(0, 127).astype(np.int8)
    (expected,) = workload.reference([x], constants)
    sums = np.zeros((16, 4))
    for at in range(0, k, 16):
        part = np.s_[:, at : at + 16]
        products = x[part].astype(np.float64) @ constants["weight"][part].T.astype(np.float64)
        sums = rounded_toward_zero(sums + products)
    y = (sums * constants["scale"][:, 0]).astype(np.float32)
    assert complaint(y, expected, workload, TARGET) is None
    assert complaint(y * np.float32(1.05), expected, workload, TARGET) is not None


def test_a_skipped_step_of_a_long_sum_is_wrong() -> None:
    workload = FloatGemm(16, 64, 1 << 16, out_dtype="float32")
    (x,), constants = workload.random_case(np.random.default_rng(2))
    (expected,) = workload.reference([x], constants)
    x[:, -64:] = 0
    (y,) = workload.reference([x], constants)
    assert complaint(y, expected, workload, TARGET) is not None


@pytest.mark.parametrize("k", [64, 1 << 18])
def test_products_of_two_activations_may_lose_as_much(k: int) -> None:
    of_activations = BatchedGemm(1, 8, 8, k, 1, "float16", "float16", epilogue=Epilogue("float16"))
    assert of_activations.tolerance(TARGET) == FloatGemm(8, 8, k).tolerance(TARGET)
