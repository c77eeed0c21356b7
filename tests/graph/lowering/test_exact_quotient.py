"""Divisions by constants as two products: the integer that numpy's quotient rounds to."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from autoq.graph.lowering.exact_quotient import exact_parts, product, split_reciprocal


def nearest_float32(exact: Fraction) -> np.float32:
    """The float32 next to a number, of two at the same distance the even one."""
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf)]
    return min([near, *around], key=lambda x: (abs(Fraction(float(x)) - exact),
                                               int(x.view(np.int32)) & 1))  # fmt: skip


def test_a_product_of_parts_is_rounded_once():
    rng = np.random.default_rng(0)
    for _ in range(500):
        parts = split_reciprocal(np.float32(np.exp(rng.uniform(-5, 5))))
        x = np.float32(rng.standard_normal())
        exact = Fraction(float(x)) * Fraction(float(parts.large))
        exact += Fraction(float(x * parts.small))
        assert product(np.array([x]), parts)[0] == nearest_float32(exact)


@pytest.mark.parametrize("scale", [0.0117, 0.013, 1 / 255, 1 / 3, 0.5, 3.0, 1e-12, 1e12])
def test_parts_are_a_little_less_than_the_reciprocal(scale):
    parts, exact = split_reciprocal(np.float32(scale)), 1 / Fraction(float(np.float32(scale)))
    found = Fraction(float(parts.large)) + Fraction(float(parts.small))
    assert abs(found - exact) <= exact / 2**46
    assert parts.large <= exact and (parts.small > 0) == (parts.large != exact)


@pytest.mark.parametrize("seed", range(20))
def test_every_float_about_a_step_rounds_as_its_quotient(seed):
    rng = np.random.default_rng(seed)
    scale, zero_point = np.float32(np.exp(rng.uniform(-9, 2))), int(rng.integers(-128, 128))
    low, high = -128.0 - zero_point, 127.0 - zero_point
    parts = exact_parts(float(scale), low, high)
    ties = (np.arange(-400, 400, dtype=np.float32) + np.float32(0.5)) * scale
    bits = ties.view(np.int32)[:, None] + np.arange(-40, 41, dtype=np.int32)
    spread = rng.uniform(-300, 300, 20000).astype(np.float32) * scale
    x = np.concatenate([bits.reshape(-1).view(np.float32), spread])
    wanted = np.clip(np.rint(x / scale), low, high)
    np.testing.assert_array_equal(np.clip(np.rint(product(x, parts)), low, high), wanted)


def test_scales_out_of_range_have_no_parts():
    assert exact_parts(1e-30, 0.0, 255.0) is None
    assert exact_parts(1e30, 0.0, 255.0) is None


def test_a_wrong_part_is_no_proof(monkeypatch):
    """One step of 255 that lies elsewhere is enough to refuse the parts."""
    plain = split_reciprocal(np.float32(0.013))
    less = type(plain)(plain.large, np.float32(0))
    monkeypatch.setattr("autoq.graph.lowering.exact_quotient.split_reciprocal", lambda value: less)
    assert exact_parts.__wrapped__(0.013, -123.0, 132.0) is None
