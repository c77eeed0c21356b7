"""Attention under sparse masks from Python: masks of every kind, and mistakes in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import tvm_ffi

import autoq
from autoq.errors import InputError
from autoq.templates.sparse.vector_matrix import from_dense

RNG = np.random.default_rng(7)
Q = RNG.standard_normal((2, 2, 27, 16)).astype(np.float16)
K, V = RNG.standard_normal((2, 2, 2, 41, 16)).astype(np.float16)
MASK = np.repeat(RNG.random((4, 41)) < 0.3, 8, axis=0)[:27] & (RNG.random((27, 41)) < 0.9)
MASK[5], MASK[16:24] = False, False


def attention(mask: np.ndarray) -> np.ndarray:
    """In float64, with zeros for queries that see no key."""
    q, k, v = (array.astype(np.float64) for array in (Q, K, V))
    powers = np.where(mask, np.exp(q @ k.swapaxes(2, 3) / 4), 0)
    return powers @ v / np.maximum(powers.sum(axis=-1, keepdims=True), 1e-30)


@pytest.mark.parametrize(
    "mask",
    [MASK, scipy.sparse.csr_array(MASK), from_dense(MASK.astype(np.int8), 2)],
    ids=["dense", "csr", "vectors"],
)
def test_every_kind_of_mask_is_attended_to(mask: Any) -> None:
    for v in (V, tvm_ffi.from_dlpack(V)):
        y = autoq.sparse_attention(Q, K, v, mask, softmax_bits=16, target="cpu")
        assert y.dtype == np.float16 and not y[:, :, 16:24].any() and not y[:, :, 5].any()
        assert np.abs(y - attention(MASK)).max() < 0.04


def test_blocks_of_a_mask_are_kept_whole() -> None:
    dense = np.kron(RNG.random((3, 5)) < 0.5, np.ones((9, 8), bool))
    k, v = (np.ascontiguousarray(array[:, :, :40]) for array in (K, V))
    blocks = scipy.sparse.bsr_array(dense.astype(np.int8), blocksize=(9, 8))
    blocks.data[:, 0] = 0
    y = autoq.sparse_attention(Q, k, v, blocks, target="cpu")
    np.testing.assert_array_equal(y, autoq.sparse_attention(Q, k, v, dense, target="cpu"))


def test_fewer_bits_lose_more() -> None:
    lost = []
    for bits in ({"softmax_bits": 16}, {"softmax_bits": 8}, {"qkv_bits": 4}):
        y = autoq.sparse_attention(Q, K, V, MASK, target="cpu", **bits)
        lost.append(np.sqrt(np.mean((y - attention(MASK)) ** 2)))
    assert lost[0] < lost[1] < 0.01 < lost[2] < 0.3


def test_a_mask_that_keeps_all_is_dense_attention() -> None:
    full = np.ones(MASK.shape, bool)
    y = autoq.sparse_attention(Q, K, V, full, softmax_bits=16, scale=0.25, target="cpu")
    assert np.abs(y - attention(full)).max() < 0.04


def test_heads_may_stand_behind_rows() -> None:
    want = autoq.sparse_attention(Q, K, V, MASK, target="cpu")
    turned = [np.ascontiguousarray(array.swapaxes(1, 2)) for array in (Q, K, V)]
    y = autoq.sparse_attention(*turned, MASK, order="blhd", target="cpu")
    np.testing.assert_array_equal(y.swapaxes(1, 2), want)


@pytest.mark.parametrize(
    ("arguments", "options", "complaint"),
    [
        ((Q, K, V, MASK), {"order": "hbld"}, "order 'hbld': choose bhld or blhd"),
        ((Q[0], K, V, MASK), {}, r"q of shape \[2, 27, 16\]: \[batch, heads, rows, depth\]"),
        ((Q, K[:, :1], V, MASK), {}, "all have the same batch, heads and depth"),
        ((Q, K, V[:, :, :40], MASK), {}, "k and v one shape"),
        ((Q, K, V, MASK[:26]), {}, r"the mask is \[26, 41\]; q and k take one of \[27, 41\]"),
        ((Q, K, V, None), {}, "a sparse matrix is expected, found NoneType"),
        ((Q, K, V, MASK), {"softmax_bits": 4}, "softmax_bits 4: choose 8 or 16"),
        ((Q, K, V, MASK), {"qkv_bits": 16}, "qkv_bits 16: choose 4 or 8"),
        ((Q, K, V, MASK), {"scale": np.nan}, "scale = nan; scores are multiplied by a positive"),
        ((Q, K, V, MASK), {"bits": 8}, "unknown option 'bits'"),
        ((Q[..., :12], K[..., :12], V[..., :12], MASK), {}, "heads of 12 values"),
        ((*(a.astype(np.float32) for a in (Q, K, V)), MASK), {}, "attention of float32"),
        ((Q, K.astype(np.float32), V, MASK), {}, "input 'k': expected float16"),
    ],
)
def test_mistakes_are_one_line(arguments: Any, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as caught:
        autoq.sparse_attention(*arguments, target="cpu", **options)
    assert "\n" not in str(caught.value)
