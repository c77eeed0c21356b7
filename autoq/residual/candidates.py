"""Settings that may keep a tolerance, the cheapest first, judged by a block of the product.

The block has some rows of a, some columns of b and all of k, so that its integers are those of the
whole product, and its cuts are means over fewer values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from autoq.residual.setting import Setting
from autoq.templates.oracle.residual_quantisation import compensated, cuts, kept, quantise

SAMPLED_VECTORS = 128
"""Rows and columns of the block."""

THRESHOLDS = tuple(4.0 * 2.0 ** (-step / 2) for step in range(21))
"""What is tried, the largest first: 4 to 1/256."""

FULL_COST = 3.0
"""Of a full correction, in products of integers; a side that takes part whole is one of them."""


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
    """Rows of float32 a [m, k] times columns of b [k, n], and what quantising them loses."""

    def __init__(self, a: np.ndarray, b: np.ndarray, bits: int, rng: np.random.Generator) -> None:
        rows = rng.permutation(len(a))[:SAMPLED_VECTORS]
        columns = rng.permutation(b.shape[1])[:SAMPLED_VECTORS]
        some_a, some_b = a[rows], b[:, columns]
        self._bits = bits
        self._exact = some_a.astype(np.float64) @ some_b.astype(np.float64)
        self._left, self._right = quantise(some_a, bits, axis=1), quantise(some_b, bits, axis=0)
        self._sums = _product(self._left.values, self._right.values)

    def candidate(self, setting: Setting) -> Candidate:
        """What becomes of the block under a setting "none", "sparse" or "full"."""
        a, b = self._left.values, self._right.values
        correction, densities, cost = None, (0.0, 0.0), 1.0
        if setting.correction == "full":
            densities, cost = (1.0, 1.0), FULL_COST
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


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """int32 [m, n] of int8 matrices; a double holds every sum that 32 bits hold."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int32)
