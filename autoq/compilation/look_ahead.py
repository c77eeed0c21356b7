"""Kernels that ask the L2 cache for the constants of those behind them.

A network with more constants than the cache holds finds none of them there, run after run, and each
of its kernels begins by waiting for memory. Constants lie behind one another in the order in which
kernels run, so that a kernel knows where those of the next ones are.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoq.compilation.selection import Selection
from autoq.templates.target import Target

AHEAD_BYTES = 2_400_000
"""What a kernel asks for: the weights of a product of BERT-base's perceptron. Half as much or twice
as much gain less (docs/notes/launches.md)."""


def looking_ahead(selections: Sequence[Selection], target: Target) -> list[Selection]:
    """The selections, of kernels that look ahead where their constants exceed the L2 cache."""
    constants = sum(selection.constant_bytes for selection in selections)
    if not 0 < target.l2_bytes < constants:
        return list(selections)
    return [selection.looking_ahead(AHEAD_BYTES) for selection in selections]
