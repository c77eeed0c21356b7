"""Attention of one head in numpy: of floats, and of bytes as a quantised model rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from autoq.templates.epilogue import requantize_numbers

if TYPE_CHECKING:
    from autoq.templates.operators.attention import Attention

Head = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Queries [m, d], keys [n, d] and values [n, d]."""


def attention_of_floats(
    work: Attention, head: Head, mask: np.ndarray | None, s: Mapping[str, np.float32]
) -> np.ndarray:
    """y as float32 [m, d]; mask: float32 [m, n]; s: the scalars by name."""
    q, k, v = (array.astype(np.float32) for array in head)
    scores = (q @ k.T) * s["scale"]
    return _softmax(work, scores if mask is None else scores + mask) @ v


def attention_of_bytes(
    work: Attention, head: Head, mask: np.ndarray | None, s: Mapping[str, np.float32],
    zero_points: Sequence[int],
) -> np.ndarray:  # fmt: skip
    """y as float32 [m, d], whole numbers where it is quantised; zero_points: of q, k and v.

    Float64 holds every sum of products of bytes that fits 32 bits, and its product with a float32
    where it is below 2**29.
    """
    q, k, v = (
        array.astype(np.float64) - zero for array, zero in zip(head, zero_points, strict=True)
    )
    scores = q @ k.T
    if work.quantised_scores:
        scores = np.clip(np.rint(scores * float(s["scale"])), s["scores_low"], s["scores_high"])
        if work.rescaled_scores:
            scores = np.rint(scores * float(s["rescale"]))
            scores = np.clip(scores, s["rescaled_low"], s["rescaled_high"])
        scores = scores.astype(np.float32) * s["scores_step"]
    else:
        scores = scores.astype(np.float32) * s["scale"]
    if mask is not None:
        scores = scores + mask
    if work.quantised_masked:
        scores = np.rint(scores / s["masked_step"])
        scores = np.clip(scores, s["masked_low"], s["masked_high"]) * s["masked_step"]
    shares = np.rint(_softmax(work, scores) / s["shares_step"])
    shares = np.fmin(shares, s["shares_most"]).astype(np.float64)
    y = (shares @ v).astype(np.float32) * s["out_scale"]
    if work.out_dtype == "float32":
        return y
    return requantize_numbers(y, s["low"], s["high"], s["zero_point"])


def _softmax(work: Attention, scores: np.ndarray) -> np.ndarray:
    """The softmax of float32 [m, n] along keys that a query sees; NaN where all are -infinity."""
    if work.causal:
        unseen = np.triu(np.ones(scores.shape, bool), work.keys - work.queries + 1)
        scores = np.where(unseen, np.float32(-np.inf), scores)
    with np.errstate(invalid="ignore"):  # of -infinity less itself
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
