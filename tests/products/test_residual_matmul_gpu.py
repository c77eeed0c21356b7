"""`autoq.residual_matmul` on a GPU, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_kernels import end_if_compile_only
from random_matrices import DISTRIBUTIONS, relative

import autoq
from autoq.errors import InputError
from autoq.products.residual_crossover import measured_crossover
from autoq.residual.setting import Setting
from autoq.templates.cuda.wgmma import residual_gemm_wgmma
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")
LARGE = ResidualGemm(2048, 2048, 2048)


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
    most = max(residual_gemm_wgmma.TEMPLATE.space(LARGE, HOPPER).knobs["share"])
    assert 0 <= measured_crossover(LARGE, "cuda") <= most


@pytest.mark.gpu
@pytest.mark.parametrize(
    "workload",
    [
        ResidualGemm(1, 1, 1),
        ResidualGemm(21, 35, 130, 4, b_order="nk", bias=True),
        ResidualGemm(130, 110, 300),
        ResidualGemm(257, 300, 1030, 4, constant_b=True),
    ],
    ids=str,
)
def test_every_distribution_and_threshold_gives_numpys_numbers(workload: ResidualGemm) -> None:
    """One kernel over all of them, at the ends of the threshold and in between."""
    end_if_compile_only()
    rng = np.random.default_rng(3)
    kernel = None
    lists = [(0, 1), (0.5, 1), (0.9, 0.1), (0.5, 0.2), (1, 0), (np.inf, 0), (1e30, 1)]
    cases = [(*one, "chi-square") for one in lists] + [(0.6, 1, name) for name in DISTRIBUTIONS]
    for threshold, crossover, name in cases:
        a, b = (DISTRIBUTIONS[name](rng, spec.shape) for spec in (workload.a, workload.b))
        constants = {
            name: np.array([value], np.float32)
            for name, value in (("threshold", threshold), ("crossover", crossover))
        }
        constants |= {"bias": rng.standard_normal(workload.n, np.float32)} if workload.bias else {}
        constants |= {"b": b} if workload.constant_b else {}
        given = (a,) if workload.constant_b else (a, b)
        if kernel is None:
            kernel = autoq.operator(workload, target="cuda", constants=constants)
        y = kernel.with_constants(constants)(*given)
        (right,) = workload.reference(given, constants)
        limit = 1e-6 * max(np.abs(right).max(), 1e-30)
        np.testing.assert_allclose(y, right, rtol=0, atol=limit, err_msg=f"{name} {threshold}")
