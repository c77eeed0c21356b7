"""`autoq.residual_matmul` on a GPU, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_kernels import end_if_compile_only
from random_matrices import relative

import autoq
from autoq.errors import InputError
from autoq.products.residual_crossover import measured_crossover
from autoq.residual.setting import Setting
from autoq.templates.operators.residual_gemm import ResidualGemm


def expected(a: np.ndarray, b: np.ndarray, setting: Setting) -> np.ndarray:
    workload = ResidualGemm(len(a), b.shape[1], len(b), setting.bits, setting.correction)
    return workload.reference([a, b], setting.constants)[0]


@pytest.mark.gpu
def test_on_a_gpu_matrices_stay_where_they_are() -> None:
    import tvm.runtime

    end_if_compile_only()
    rng = np.random.default_rng(4)
    a, b = (rng.exponential(4, shape).astype(np.float32) for shape in ((300, 512), (512, 200)))
    gpu = tvm.runtime.device("cuda", 0)
    on_gpu = [tvm.runtime.tensor(matrix, gpu) for matrix in (a, b)]
    for correction in ("none", "sparse", "full"):
        product = autoq.residual_matmul(*on_gpu, correction=correction, target="cuda")
        right = expected(a, b, product.setting)
        assert product.y.device.type == "cuda"
        limit = 1e-6 * np.abs(right).max()
        np.testing.assert_allclose(product.y.numpy(), right, rtol=1e-6, atol=limit)
        on_host = autoq.residual_matmul(a, b, correction=correction, target="cuda").y
        np.testing.assert_array_equal(on_host, product.y.numpy())
    product = autoq.residual_matmul(*on_gpu, tolerance=1e-3, target="cuda")
    assert relative(product.y.numpy(), a, b) <= product.error_bound <= 1e-3
    for correction in ("channels", "low-rank"):
        y = autoq.residual_matmul(*on_gpu, correction=correction, target="cuda").y
        assert relative(y, a, b) < relative(expected(a, b, Setting(8, "none")), a, b)
    for wrong in (np.nan, np.inf):
        b[17, 33] = wrong
        with pytest.raises(InputError, match="b has NaN or infinite values"):
            autoq.residual_matmul(on_gpu[0], tvm.runtime.tensor(b, gpu), target="cuda")


@pytest.mark.gpu
def test_the_crossover_of_a_gpu_is_measured() -> None:
    """Between never and always: what else runs on the GPU decides where."""
    end_if_compile_only()
    assert 0 <= measured_crossover(ResidualGemm(2048, 2048, 2048), "cuda") <= 1
