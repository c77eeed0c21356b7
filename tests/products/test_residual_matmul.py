"""`autoq.residual_matmul`: products of float32 matrices through integers, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm_ffi
from ptx.kernels import run
from random_matrices import DISTRIBUTIONS, relative
from with_nvcc import needs_nvcc

import autoq
from autoq.errors import InputError
from autoq.graph.lowering.fusions import fusion_prim_func
from autoq.products import kept_operators, residual_matmul
from autoq.products.finite import row_means, rows_of
from autoq.residual.setting import ResidualProduct, Setting
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.target import parse_target

M, N, K = 70, 48, 96
CORRECTIONS = ("none", "sparse", "full", "channels", "low-rank")


def matrices(name: str = "exponential") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    return DISTRIBUTIONS[name](rng, (M, K)), DISTRIBUTIONS[name](rng, (K, N))


def assert_numpys(product: ResidualProduct, a: np.ndarray, b: np.ndarray) -> None:
    right = expected(a, b, product.setting)
    np.testing.assert_allclose(product.y, right, rtol=1e-6, atol=1e-6 * np.abs(right).max())


def expected(a: np.ndarray, b: np.ndarray, setting: Setting) -> np.ndarray:
    workload = ResidualGemm(len(a), b.shape[1], len(b), setting.bits, setting.correction)
    return workload.reference([a, b], setting.constants)[0]


@pytest.mark.parametrize(("bits", "corrections"), [(4, ("none", "full")), (8, CORRECTIONS)])
def test_every_correction_is_numpys(bits: int, corrections: tuple[str, ...]) -> None:
    a, b = matrices()
    errors = {}
    for correction in corrections:
        crossover = 1.0 if correction == "sparse" else None
        product = autoq.residual_matmul(
            a, b, bits, correction=correction, crossover=crossover, target="cpu"
        )
        assert product.setting.correction == correction and product.relative_error is None
        if correction in ("none", "sparse", "full"):
            assert_numpys(product, a, b)
        errors[correction] = relative(product.y, a, b)
    rest = [error for name, error in errors.items() if name not in ("none", "full")]
    assert errors["full"] < min(rest, default=1) and max(rest, default=0) < errors["none"]


def test_a_second_product_of_a_shape_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = matrices()
    first = autoq.residual_matmul(a, b, threshold=0.7, crossover=1.0, target="cpu").y
    monkeypatch.setattr(kept_operators, "operator", None)
    for threshold in (0.7, 0.3):
        again = autoq.residual_matmul(a, b, threshold=threshold, crossover=1.0, target="cpu")
        assert_numpys(again, a, b)
        assert np.array_equal(again.y, first) == (threshold == 0.7)


def test_thresholds_at_the_ends_are_the_full_and_the_direct_product() -> None:
    a, b = matrices("uniform")
    for threshold, correction in ((0, "full"), (np.inf, "none")):
        y = autoq.residual_matmul(a, b, threshold=threshold, target="cpu").y
        same = autoq.residual_matmul(a, b, correction=correction, target="cpu").y
        np.testing.assert_array_equal(y, same)


def test_where_lists_never_pay_everything_is_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = matrices()
    monkeypatch.setattr(residual_matmul, "crossover_of", lambda *given: 0.0)
    product = autoq.residual_matmul(a, b, target="cpu")
    assert product.setting == Setting(8, "full")
    assert_numpys(product, a, b)
    product = autoq.residual_matmul(a, b, tolerance=0.5, target="cpu")
    assert product.setting.correction == "none"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"threshold": -0.5}, "threshold -0.5: 0 or more"),
        ({"threshold": np.nan}, "threshold nan: a number is expected"),
        ({"threshold": 10**400}, "threshold: a number beyond the range of floats"),
        ({"tolerance": 10**400}, "tolerance: a number beyond the range of floats"),
        ({"correction": "weights"}, "correction 'weights': is of the convolutions of a model"),
        ({"bits": 8.0}, "bits 8.0: choose 4 or 8"),
        ({"bits": True}, "bits True: choose 4 or 8"),
        ({"a": np.ma.masked_array(np.ones((2, K), np.float32))}, "a is a masked array"),
    ],
)
def test_mistakes_get_one_line(given: dict[str, Any], message: str) -> None:
    a, b = matrices()
    with pytest.raises(InputError, match=message) as raised:
        autoq.residual_matmul(**{"a": a, "b": b, "target": "cpu", **given})
    assert "\n" not in str(raised.value)


@pytest.mark.filterwarnings("error")
def test_numbers_beyond_float32_are_what_they_round_to() -> None:
    assert Setting(np.int64(8), "sparse", 1e300, 0.1).plainest == Setting(8, "none")
    assert Setting(8, "sparse", 1e-300, 0.1).plainest == Setting(8, "full")
    assert Setting(8, "sparse", 1.0, 1e300).constants["crossover"] == np.inf


def test_arrays_lie_as_they_like() -> None:
    a, b = matrices()
    y = autoq.residual_matmul(a, b, correction="none", target="cpu").y
    batches = a.reshape(2, 5, 7, K)
    forms = {
        "of the other order": (np.asfortranarray(a), np.asfortranarray(b)),
        "every second": (np.repeat(a, 2, axis=1)[:, ::2], np.repeat(b, 2, axis=0)[::2]),
        "backwards": (a[::-1].copy()[::-1], b[:, ::-1].copy()[:, ::-1]),
        "of DLPack": (tvm_ffi.from_dlpack(a), tvm_ffi.from_dlpack(b.T.copy().T)),
        "in batches": (batches, b),
    }
    for name, (left, right) in forms.items():
        found = autoq.residual_matmul(left, right, correction="none", target="cpu").y
        assert found.shape == (*left.shape[:-1], N), name
        np.testing.assert_allclose(found.reshape(M, N), y, rtol=1e-6, err_msg=name)


def test_a_tolerance_is_kept_at_the_least_cost() -> None:
    a, b = matrices()
    direct = relative(expected(a, b, Setting(8, "none")), a, b)
    corrections = []
    for tolerance in (2 * direct, 0.8 * direct, 1e-4):
        product = autoq.residual_matmul(a, b, tolerance=tolerance, crossover=0.6, target="cpu")
        assert relative(product.y, a, b) <= product.error_bound <= tolerance
        assert product.relative_error <= product.error_bound
        corrections.append(product.setting.correction)
        assert (product.densities == (0, 0)) == (corrections[-1] == "none")
    assert corrections == ["none", "sparse", "full"]
    with pytest.raises(InputError, match=r"tolerance 1e-08: 8 bits .* reach \d"):
        autoq.residual_matmul(a, b, tolerance=1e-8, crossover=1.0, target="cpu")


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 40, 3), (5, 1, 2)])
def test_small_products(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    for correction in ("channels", "low-rank"):
        y = autoq.residual_matmul(a, b, correction=correction, target="cpu").y
        np.testing.assert_allclose(y, a @ b, atol=0.1)


def test_values_make_rows_that_a_kernel_reduces() -> None:
    assert rows_of(8192 * 8192) == (8192, 8192)
    assert rows_of(127 * 97) == (97, 127)
    assert rows_of(8209) is None and rows_of(1) is None and rows_of(1 << 32) is None


@needs_nvcc
def test_a_gpu_finds_what_is_no_number() -> None:
    target, rng = parse_target("cuda:sm_80"), np.random.default_rng(0)
    for rows in ((3, 64), (5, 997)):
        kernel = fusion_prim_func(row_means(rows), target)
        x = rng.random(rows, np.float32) * np.float32(3e38)
        x[1, 62], x[2, 5] = np.nan, -np.inf
        (means,) = run(kernel, target, [x], [((rows[0], 1), "float32")])
        np.testing.assert_array_equal(np.isfinite(means[:, 0]), np.isfinite(x).all(axis=1))
