"""Settings that may keep a tolerance, the cheapest first, judged by a block of the product.

The block has some rows of a, some columns of b and all of k, so that its integers are those of the
whole product, and its cuts are means over fewer values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from autoq.residual.setting import ONE_SIDED, Setting
from autoq.templates.oracle.residual_quantisation import (
    Quantised,
    compensated,
    cuts,
    kept,
    quantise,
)

SAMPLED_VECTORS = 128
"""Rows and columns of the block."""

THRESHOLDS = tuple(4.0 * 2.0 ** (-step / 2) for step in range(21))
"""What is tried, the largest first: 4 to 1/256."""

FULL_COST = 3.0
"""The cost of a full correction, in products of integers; a side that takes part whole is one of
them."""


@dataclass(frozen=True)
class Candidate:
    """A setting with what the block says of it.

    cost: in products of integers, where a sparse side at the crossover costs as much as a whole
    one. densities: shares of the values of a and of b that take part in the correction.
    """

    setting: Setting
    cost: float
    densities: tuple[float, float]
    relative_error: float


class Block:
    """Rows of float32 a [m, k] times columns of b [k, n], and what quantising them loses.

    left, right: what becomes of a and b, with a scale for each row and column.
    """

    def __init__(
        self, a: np.ndarray, b: np.ndarray, left: Quantised, right: Quantised, bits: int
    ) -> None:
        self._bits = bits
        self._exact = a.astype(np.float64) @ b.astype(np.float64)
        self._left, self._right = left, right
        self._sums = _product(left.values, right.values)

    @classmethod
    def drawn(cls, a: np.ndarray, b: np.ndarray, bits: int, rng: np.random.Generator) -> Block:
        """Some rows and columns at random, quantised with a scale for each."""
        a = a[rng.permutation(len(a))[:SAMPLED_VECTORS]]
        b = b[:, rng.permutation(b.shape[1])[:SAMPLED_VECTORS]]
        return cls(a, b, quantise(a, bits, axis=1), quantise(b, bits, axis=0), bits)

    def candidate(self, setting: Setting) -> Candidate:
        """What becomes of the block under a setting "none", "sparse", "full" or one-sided."""
        a, b = self._left.values, self._right.values
        correction, densities, cost = None, (0.0, 0.0), 1.0
        if setting.correction == "full":
            densities, cost = (1.0, 1.0), FULL_COST
        elif setting.correction in ONE_SIDED:
            of_a = setting.correction == "activations"
            densities, cost = ((0.0, 1.0) if of_a else (1.0, 0.0)), 2.0
            a, b = (np.zeros_like(a), b) if of_a else (a, np.zeros_like(b))
        elif setting.correction == "sparse":
            a, share_a, cost_a = self._side(setting, rows=True)
            b, share_b, cost_b = self._side(setting, rows=False)
            densities, cost = (share_a, share_b), cost + cost_a + cost_b
        if setting.correction != "none":
            correction = _product(a, self._right.residual) + _product(self._left.residual, b)
        y = compensated(self._sums, correction, self._left.scale, self._right.scale, self._bits)
        return Candidate(setting, cost, densities, self._relative(y))

    def _side(self, setting: Setting, rows: bool) -> tuple[np.ndarray, float, float]:
        """The values of a side, a's or b's, that take part, their share, and their cost."""
        mine, other = (self._left, self._right) if rows else (self._right, self._left)
        sums = self._sums if rows else self._sums.T
        magnitudes = np.abs(other.values.astype(np.int32)).sum(axis=0 if rows else 1)
        threshold, crossover = float(setting.threshold or 0), float(setting.crossover or 0)
        cut = cuts(sums, other.scale.reshape(-1), magnitudes, threshold)
        some = kept(mine.values, cut[:, None] if rows else cut[None, :])
        share = int(np.count_nonzero(some)) / some.size
        if share > crossover:
            return mine.values, 1.0, 1.0
        return some, share, share / crossover if share else 0.0

    def _relative(self, y: np.ndarray) -> float:
        norm = np.linalg.norm(self._exact)
        error = np.linalg.norm(y - self._exact)
        return float(error / norm) if norm else float(error and np.inf)


def in_order_of_cost(block: Block, sparse: Setting, goal: float) -> Iterator[Candidate]:
    """Settings that keep a relative error on the block, those of least cost first, "full" last.

    sparse: one with the bits and the crossover of all. Behind the cheapest sparse one come those of
    smaller thresholds, in case that the whole product is worse than the block. "full" comes whether
    it keeps the error or not.
    """
    direct = block.candidate(Setting(sparse.bits, "none"))
    if direct.relative_error <= goal:
        yield direct
    for threshold in THRESHOLDS:
        candidate = block.candidate(replace(sparse, threshold=threshold))
        if candidate.cost >= FULL_COST:
            break
        if candidate.relative_error <= goal:
            yield candidate
    yield block.candidate(Setting(sparse.bits, "full"))


def for_convolution(
    images: Block, windows: Block, sparse: Setting, windows_cost: float, goal: float
) -> Iterator[Candidate]:
    """Settings of a convolution that keep a relative error on a block, by their cost, "full" last.

    images: a block with a scale for each image, as convolutions have it; windows: one with a scale
    for each pixel's window, as the sparse correction has, whose rows are written to memory first:
    `windows_cost`, in products of integers. Of settings that cost the same the best comes first.
    """
    found = [images.candidate(Setting(sparse.bits, name)) for name in ("none", *ONE_SIDED)]
    if 1 + windows_cost < FULL_COST:
        for threshold in THRESHOLDS:
            candidate = windows.candidate(replace(sparse, threshold=threshold))
            if candidate.cost + windows_cost >= FULL_COST:
                break
            found.append(replace(candidate, cost=candidate.cost + windows_cost))
    within = [one for one in found if one.relative_error <= goal]
    yield from sorted(within, key=lambda one: (one.cost, one.relative_error))
    yield images.candidate(Setting(sparse.bits, "full"))


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """int32 [m, n] of int8 matrices; a double holds every sum that 32 bits hold."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int32)
