"""Selection of distinctive configurations: those that differ most in their knobs.

The paper keeps half of the mutants "considering the configuration diversity" and does not say
how; here that is farthest-point selection under the number of differing knobs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def hamming(knobs: np.ndarray) -> np.ndarray:
    """Number of differing knobs between all pairs of rows: int16 [n, n] for knobs [n, k]."""
    small = knobs.astype(np.int16)
    differing = np.zeros((len(small), len(small)), dtype=np.int16)
    for column in small.T:
        differing += column[:, None] != column[None, :]
    return differing


def farthest_first(knobs: np.ndarray, keep: int, scores: np.ndarray) -> np.ndarray:
    """Rows of a subset whose members are far from each other.

    Starts from the best score and keeps adding the row whose nearest kept row is farthest;
    among equally far ones, the one with the best score. A repeated row is therefore kept only
    when no new one is left.

    Args:
        knobs: knob choices, int [n, k].
        keep: how many rows to keep.
        scores: higher is better, float [n].

    Returns:
        Positions of the kept rows, int64 [min(keep, n)], in the order of selection.
    """
    n = len(knobs)
    keep = min(keep, n)
    if not keep:
        return np.empty(0, dtype=np.int64)
    # A whole knob of distance outweighs any score: ranks scaled into [0, 1) break ties.
    order = np.argsort(np.argsort(scores, kind="stable"), kind="stable")
    far = hamming(knobs).astype(np.float32)
    tie = (order / n).astype(np.float32)
    near = np.full(n, knobs.shape[1] + 1, dtype=np.float32) + tie
    kept = np.empty(keep, dtype=np.int64)
    far += tie[None, :]
    for i in range(keep):
        pick = int(near.argmax())
        kept[i] = pick
        np.minimum(near, far[pick], out=near)
        near[pick] = -1.0
    return kept


def cover_values(knobs: Sequence[Sequence[int]], keep: int) -> list[int]:
    """AutoTVM's diversity filter: greedily pick the row that shows most unseen knob values.

    Scores take no part, as in AutoTVM, whose filter multiplies them by zero; ties go to the
    earlier row (source: autotvm/tuner/model_based_tuner.py, `submodular_pick`).

    Args:
        knobs: knob choices, [n][k].
        keep: how many rows to pick.

    Returns:
        Positions of min(keep, n) rows, in the order of selection.
    """
    shown: set[tuple[int, int]] = set()
    rows = [set(enumerate(row)) for row in knobs]
    left = list(range(len(rows)))
    picked: list[int] = []
    while left and len(picked) < keep:
        best = max(left, key=lambda i: len(rows[i] - shown))
        picked.append(best)
        left.remove(best)
        shown |= rows[best]
    return picked
