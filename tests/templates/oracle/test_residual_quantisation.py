"""Residual quantisation against what the paper says of its densities and errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autoq.errors import InputError
from autoq.templates.operators.residual_gemm import ResidualGemm, longest_sum
from autoq.templates.oracle.residual_quantisation import (
    cuts,
    integer_product,
    kept,
    quantise,
)

SIZE = 512


def chi_square(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.chisquare(1, shape).astype(np.float32)


def uniform(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.random(shape, np.float32)


def relative(y: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(y - exact) / np.linalg.norm(exact))


def constants(threshold: float, crossover: float = 1.0) -> dict[str, np.ndarray]:
    return {
        "threshold": np.array([threshold], np.float32),
        "crossover": np.array([crossover], np.float32),
    }


@pytest.mark.parametrize(
    ("draw", "threshold", "density"), [(uniform, 0.8, 0.2), (chi_square, 1.0, 0.157)]
)
def test_the_rule_keeps_as_much_as_the_paper_says(
    draw: Callable[..., np.ndarray], threshold: float, density: float
) -> None:
    rng = np.random.default_rng(0)
    left, right = (quantise(draw(rng, (SIZE, SIZE)), 8, axis) for axis in (1, 0))
    sums = left.values.astype(np.int32) @ right.values.astype(np.int32)
    magnitudes = np.abs(right.values.astype(np.int32)).sum(axis=0)
    some = kept(left.values, cuts(sums, right.scale[0], magnitudes, threshold)[:, None])
    assert np.count_nonzero(some) / some.size == pytest.approx(density, abs=0.01)


def test_values_that_matter_bring_back_most_of_the_error() -> None:
    """At threshold 1 chi-square data lose four fifths of a direct product's error."""
    rng = np.random.default_rng(1)
    a, b = (chi_square(rng, (SIZE, SIZE)) for _ in range(2))
    exact = a.astype(np.float64) @ b
    (y,) = ResidualGemm(SIZE, SIZE, SIZE).reference((a, b), constants(1.0))
    one_scale = [quantise(matrix, 8, axis=None) for matrix in (a, b)]
    direct = one_scale[0].values.astype(np.float64) @ one_scale[1].values
    direct *= one_scale[0].scale * one_scale[1].scale
    assert relative(y, exact) < 0.2 * relative(direct, exact)


@pytest.mark.parametrize("bits", [4, 8])
def test_the_ends_are_the_direct_and_the_full_product(bits: int) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((9, 33), np.float32), rng.standard_normal((33, 17), np.float32)
    direct, full = (ResidualGemm(9, 17, 33, bits, form) for form in ("none", "full"))
    sparse = ResidualGemm(9, 17, 33, bits)
    assert np.array_equal(sparse.reference((a, b), constants(np.inf)), direct.reference((a, b), {}))
    assert np.array_equal(sparse.reference((a, b), constants(0.0)), full.reference((a, b), {}))


def test_a_side_with_too_many_values_takes_part_as_a_whole() -> None:
    rng = np.random.default_rng(3)
    a, b = chi_square(rng, (16, 64)), uniform(rng, (64, 24))
    whole = ResidualGemm(16, 24, 64, correction="full").reference((a, b), {})
    sparse = ResidualGemm(16, 24, 64)
    (none,) = sparse.reference((a, b), constants(0.5, crossover=0.0))
    assert np.array_equal(none, whole[0])
    (some,) = sparse.reference((a, b), constants(0.5))
    assert not np.array_equal(some, whole[0])


@pytest.mark.parametrize("size", [1, 2, 7])
def test_zeros_stay_zeros(size: int) -> None:
    """Rows of zeros, and of values whose steps would be denormal, have no scale to divide by."""
    a = np.zeros((size, size), np.float32)
    a[0] = 1e-35
    for form in ("none", "sparse", "full"):
        given = constants(0.0) if form == "sparse" else {}
        (y,) = ResidualGemm(size, size, size, correction=form).reference((a, a), given)
        assert not y.any()


def test_residuals_are_finer_by_twice_the_largest_integer() -> None:
    rng = np.random.default_rng(4)
    matrix = rng.standard_normal((64, 256)).astype(np.float32)
    for bits, most in ((4, 7), (8, 127)):
        found = quantise(matrix, bits, axis=1)
        restored = (found.values + found.residual / (2 * most)) * found.scale
        assert np.abs(found.values).max() == most
        assert np.abs(restored - matrix).max() <= 1.01 * (found.scale / (4 * most)).max()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bits": 5}, "5 bits: choose 4 or 8"),
        ({"k": longest_sum(8) + 1}, "fit 32 bits"),
        ({"m": 0}, "m = 0"),
        ({"correction": "some"}, "correction"),
    ],
)
def test_what_no_product_has_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ResidualGemm(**{"m": 8, "n": 8, "k": 8, **options})


@pytest.mark.parametrize("name", ["threshold", "crossover"])
@pytest.mark.parametrize("value", [-0.5, np.nan])
def test_thresholds_are_not_negative(name: str, value: float) -> None:
    given = constants(1.0) | {name: np.array([value], np.float32)}
    with pytest.raises(InputError, match=f"{name}.*0 or more"):
        ResidualGemm(8, 8, 8).check_constants(given)


def test_integers_are_multiplied_exactly() -> None:
    left, right = np.full((2, 3000), 127, np.int8), np.full((3000, 2), -127, np.int8)
    assert np.array_equal(integer_product(left, right, 8), np.full((2, 2), -3000 * 127**2))
