"""What channels along k and a few directions take back of a direct product's error."""

from __future__ import annotations

import numpy as np
import pytest
from random_matrices import DISTRIBUTIONS, relative

from autoq.residual.channels import with_channels
from autoq.residual.low_rank import low_rank_terms
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.oracle.residual_quantisation import quantise

M, N, K = 96, 80, 128


def matrices(name: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return DISTRIBUTIONS[name](rng, (M, K)), DISTRIBUTIONS[name](rng, (K, N))


def direct(a: np.ndarray, b: np.ndarray, bits: int) -> np.ndarray:
    workload = ResidualGemm(len(a), b.shape[1], len(b), bits, "none")
    return workload.reference([a, b], {})[0]


def left(name: str, bits: int, count: int) -> float:
    """The share of the direct product's error that is left with so many channels."""
    a, b = matrices(name)
    return relative(direct(*with_channels(a, b, bits, count), bits), a, b) / relative(
        direct(a, b, bits), a, b
    )


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_channels_take_back_what_the_documentation_says(name: str, bits: int) -> None:
    assert left(name, bits, K) < 0.8  # half of all channels: sqrt(1 / 2), were they all alike
    assert left(name, bits, 9 * K) < {8: 0.15, 4: 0.55}[bits]


def test_appended_channels_leave_the_others_and_the_scales_alone() -> None:
    a, b = matrices("exponential")
    longer_a, longer_b = with_channels(a, b, 8, 40)
    assert longer_a.shape == (M, K + 40) and longer_b.shape == (K + 40, N)
    for whole, longer, axis in ((a, longer_a, 1), (b.T, longer_b.T, 1)):
        own, other = quantise(whole, 8, axis), quantise(longer, 8, axis)
        np.testing.assert_array_equal(other.scale, own.scale)
        np.testing.assert_array_equal(other.values[:, :K], own.values)


def test_the_channels_that_matter_are_found() -> None:
    a, b = matrices("normal")
    a[:, [5, 77]] *= 30
    b[[5, 77]] *= 30
    y = direct(a, b, 8)
    compensated = direct(*with_channels(a, b, 8, 4), 8)
    assert relative(compensated, a, b) < 0.4 * relative(y, a, b)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("uniform", 0.6),
        ("normal", 0.35),
        ("chi-square", 0.8),
        ("exponential", 0.75),
        ("Poisson", 0.2),
    ],
)
def test_one_direction_takes_back_what_a_mean_brings(name: str, share: float, bits: int) -> None:
    a, b = matrices(name)
    p, q = low_rank_terms(a, b, bits, 1, np.random.default_rng(0))
    assert p.shape == (M, 2) and q.shape == (2, N)
    y = direct(a, b, bits)
    assert relative(y + p @ q, a, b) < share * relative(y, a, b)


@pytest.mark.parametrize("shape", [(M, K, N), (1, 1, 1), (3, 50, 2)])
def test_all_directions_leave_the_product_of_the_residuals(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    p, q = low_rank_terms(a, b, 4, max(shape), rng)
    rows, columns = quantise(a, 4, 1), quantise(b, 4, 0)
    rest = (a - rows.values * rows.scale) @ (b - columns.values * columns.scale)
    np.testing.assert_allclose(direct(a, b, 4) + p @ q - rest, a @ b, rtol=1e-4, atol=1e-4)
