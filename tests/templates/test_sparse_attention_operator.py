"""The reference of attention under sparse masks against plain softmax, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autoq.errors import InputError
from autoq.templates.operators.sparse_attention import SparseAttention
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

WORKLOAD = SparseAttention(2, 1, 29, 50, 16, Structure(80, 20, 40), softmax_bits=16)


def test_the_reference_is_attention_but_for_rounding() -> None:
    (q, k, v), constants = WORKLOAD.random_case(np.random.default_rng(1))
    constants["kept"][constants["pointers"][1] : constants["pointers"][2]] = 0
    (y,) = WORKLOAD.reference((q, k, v), constants)
    mask = WORKLOAD.mask(constants).to_dense() != 0
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(2, 3) * constants["scale"]
    powers = np.where(mask, np.exp(scores), 0)
    expected = powers @ v.astype(np.float64) / np.maximum(powers.sum(-1, keepdims=True), 1e-30)
    assert np.abs(y - expected).max() < 0.05
    assert not y[:, :, 8:16].any() and y[:, :, 16:].any()


def test_the_tolerance_tells_a_key_that_is_left_out() -> None:
    (q, k, v), constants = WORKLOAD.random_case(np.random.default_rng(1))
    (y,) = WORKLOAD.reference((q, k, v), constants)
    group = int(np.argmax(np.diff(constants["pointers"])))
    constants["kept"][constants["pointers"][group]] = 0
    (other,) = WORKLOAD.reference((q, k, v), constants)
    lost = np.abs(y.astype(float) - other)[:, :, group * 8 : group * 8 + 8].max()
    rows = np.sqrt(np.mean(y.astype(float) ** 2, axis=-1)).max()
    assert lost > 2 * WORKLOAD.tolerance(parse_target("cuda:sm_90a")).relative * rows


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"dtype": "float32"}, "attention of float32: choose float16 or bfloat16"),
        ({"softmax_bits": 12}, "softmax_bits 12: choose 8 or 16"),
        ({"qkv_bits": 2}, "qkv_bits 2: choose 4 or 8"),
        ({"depth": 136}, "heads of 136 values: choose a multiple of 8, up to 128"),
        ({"keys": 70_000}, "70000 keys: sums over at most 65536"),
    ],
)
def test_what_is_refused(changed: dict[str, object], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        replace(WORKLOAD, **changed)


@pytest.mark.parametrize(
    ("name", "at", "value", "complaint"),
    [
        ("columns", 3, 50, "column 50; the matrix has 50"),
        ("pointers", -1, 99, "expected to rise"),
        ("scale", 0, np.nan, "scale = nan; scores are multiplied by a positive one"),
        ("scale", 0, -1, "scale = -1"),
        ("kept", -1, 255, "values below row 29"),
    ],
)
def test_constants_that_do_not_fit(name: str, at: int, value: float, complaint: str) -> None:
    constants = WORKLOAD.random_case(np.random.default_rng(2))[1]
    constants[name][at] = value
    with pytest.raises(InputError, match=complaint):
        WORKLOAD.check_constants(constants)


def test_lengths_that_do_not_match() -> None:
    constants = WORKLOAD.random_case(np.random.default_rng(2))[1]
    constants["kept"] = constants["kept"][:-1]
    with pytest.raises(InputError, match="kept is"):
        WORKLOAD.check_constants(constants)


def test_heads_behind_queries_are_the_same_attention() -> None:
    by_heads = replace(WORKLOAD, heads=3)
    by_rows = replace(by_heads, order="blhd")
    arrays, constants = by_heads.random_case(np.random.default_rng(2))
    (y,) = by_heads.reference(arrays, constants)
    turned = [np.ascontiguousarray(array.transpose(0, 2, 1, 3)) for array in arrays]
    (other,) = by_rows.reference(turned, constants)
    assert [array.shape for array in turned] == [spec.shape for spec in by_rows.inputs]
    np.testing.assert_array_equal(other.transpose(0, 2, 1, 3), y)
