"""Errors from some rows of a product, and the cheapest setting that keeps a tolerance."""

from __future__ import annotations

import numpy as np
import pytest
from random_matrices import DISTRIBUTIONS, relative

from autoq.errors import InputError
from autoq.residual.candidates import Block, for_convolution, in_order_of_cost
from autoq.residual.sampling import SAMPLED_ROWS, estimated_error
from autoq.residual.search import Found, cheapest_within
from autoq.residual.setting import Setting
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.oracle.residual_quantisation import quantise

M, N, K = 160, 96, 128
SPARSE = Setting(8, "sparse", 1.0, 0.5)


def product(a: np.ndarray, b: np.ndarray, setting: Setting) -> np.ndarray:
    workload = ResidualGemm(len(a), b.shape[1], len(b), setting.bits, setting.correction)
    return workload.reference([a, b], setting.constants)[0]


def searched(a: np.ndarray, b: np.ndarray, tolerance: float, sparse: Setting = SPARSE) -> Found:
    rng = np.random.default_rng(0)
    candidates = in_order_of_cost(Block.drawn(a, b, sparse.bits, rng), sparse, tolerance)
    return cheapest_within(a, b, candidates, tolerance, lambda one: product(a, b, one), rng)


def matrices(name: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return DISTRIBUTIONS[name](rng, (M, K)), DISTRIBUTIONS[name](rng, (K, N))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_setting_keeps_the_tolerance_and_none_cheaper_does(name: str) -> None:
    a, b = matrices(name)
    errors = {c: relative(product(a, b, Setting(8, c)), a, b) for c in ("none", "full")}
    costs = []
    for tolerance in (1.5 * errors["none"], 0.7 * errors["none"], 1.5 * errors["full"]):
        found = searched(a, b, tolerance)
        assert relative(found.y, a, b) <= found.error.bound <= tolerance
        costs.append(found.candidate.cost)
    assert costs[0] == 1 and costs[-1] == 3 and costs == sorted(costs)
    with pytest.raises(InputError, match=r"8 bits with the full correction reach \d.*e-0[56]"):
        searched(a, b, 1e-7)


def test_a_sparse_correction_is_chosen_where_it_costs_less() -> None:
    a, b = matrices("exponential")
    found = searched(a, b, 0.7 * relative(product(a, b, Setting(8, "none")), a, b))
    setting, (of_a, of_b) = found.candidate.setting, found.candidate.densities
    assert setting.correction == "sparse" and setting.crossover == 0.5
    assert 0 < of_a < 0.5 and 0 < of_b < 0.5
    assert found.candidate.cost == pytest.approx(1 + (of_a + of_b) / 0.5)
    whole = searched(a, b, found.error.bound, Setting(8, "sparse", 1.0, 0.0))
    assert whole.candidate.setting.correction == "full"


def test_a_convolution_may_take_back_one_factor_or_write_its_windows() -> None:
    """Images have one scale here, windows one each; activations lose more than filters."""
    a, b = matrices("exponential")
    images = Block(a, b, quantise(a, 8, None), quantise(b, 8, axis=0), 8)
    windows = Block.drawn(a, b, 8, np.random.default_rng(0))
    for cost, goal in ((0.1, 1.0), (1.5, 1.0), (2.0, 1.0), (0.1, 3e-3)):
        found = list(for_convolution(images, windows, SPARSE, cost, goal))
        assert [one.cost for one in found] == sorted(one.cost for one in found)
        assert found[-1].setting == Setting(8, "full")
        corrections = [one.setting.correction for one in found]
        assert ("sparse" in corrections) == (cost < 2.0)
        assert all(one.relative_error <= goal for one in found[:-1])
        assert all(one.cost >= 1 + cost for one in found if one.setting.correction == "sparse")
        if goal == 1.0:
            assert corrections[0] == "none" and {"activations", "weights"} < set(corrections)
    by_name = {
        one.setting.correction: one for one in for_convolution(images, windows, SPARSE, 3, 1)
    }
    errors = [by_name[c].relative_error for c in ("none", "weights", "activations", "full")]
    assert errors == sorted(errors, reverse=True)
    assert by_name["activations"].densities == (0, 1) and by_name["weights"].densities == (1, 0)


def test_4_bits_lead_to_8() -> None:
    a, b = matrices("uniform")
    with pytest.raises(InputError, match=r"tolerance 1e-05: 4 bits .* or take 8 bits"):
        searched(a, b, 1e-5, Setting(4, "sparse", 1.0, 0.5))


def test_all_rows_give_the_error_itself() -> None:
    a, b = (matrix[:SAMPLED_ROWS] for matrix in matrices("normal"))
    b = np.ascontiguousarray(matrices("normal")[1])
    y = product(a, b, Setting(8, "none"))
    error = estimated_error(y, a, b, np.random.default_rng(0))
    assert error.value == error.bound == pytest.approx(relative(y, a, b), rel=1e-6)


def test_few_rows_bound_the_error_of_many_whichever_are_drawn() -> None:
    rng = np.random.default_rng(7)
    a = rng.standard_normal((900, 40), np.float32) * rng.pareto(1.5, (900, 1)).astype(np.float32)
    b = rng.standard_normal((40, 30), np.float32)
    y = product(a, b, Setting(8, "none"))
    true = relative(y, a, b)
    found = [estimated_error(y, a, b, np.random.default_rng(seed)) for seed in range(100)]
    assert sum(error.bound >= true for error in found) >= 97
    assert np.mean([error.value for error in found]) == pytest.approx(true, rel=0.02)
    assert max(error.bound for error in found) < 1.5 * true


def test_products_of_zeros() -> None:
    zeros = np.zeros((3, 4), np.float32), np.zeros((4, 2), np.float32)
    found = searched(*zeros, 1e-6)
    assert found.error.value == 0 and found.candidate.setting.correction == "none"
    error = estimated_error(np.ones((3, 2), np.float32), *zeros, np.random.default_rng(0))
    assert error.bound == np.inf
