"""Expressions over lists of digits, whose value is to be told: ListOps, made here.

Task: Nangia and Bowman, "ListOps: A Diagnostic Dataset for Latent Tree Learning" (2018), the first
of the Long-Range Arena: `[MAX 2 9 [MIN 4 7 ] 0 ]` is 9. An operation is the largest, the least or
the middle of its arguments, or their sum modulo 10.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

PADDING, CLOSE, FIRST_OPERATION, FIRST_DIGIT = 0, 1, 2, 6
VOCABULARY = FIRST_DIGIT + 10
CLASSES = 10

_OPERATIONS: tuple[Callable[[Sequence[int]], int], ...] = (
    max,
    min,
    lambda values: sorted(values)[len(values) // 2],
    lambda values: sum(values) % 10,
)
_DEPTH, _ARGUMENTS = 6, (2, 6)
_NESTED = 0.45
_PART = 1000


def expressions(count: int, length: int, seed: int, processes: int) -> tuple[np.ndarray, ...]:
    """Tokens, uint8 [count, length], and values, uint8 [count], of expressions that are at least a
    quarter as long; PADDING behind their ends.
    """
    parts = [(seed * 100_003 + part, length) for part in range(-(-count // _PART))]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        made = list(pool.map(_part, parts))
    tokens, values = (np.concatenate(each)[:count] for each in zip(*made, strict=True))
    return tokens, values


def _part(seed_and_length: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    seed, length = seed_and_length
    rng = random.Random(seed)
    tokens, values = np.zeros((_PART, length), np.uint8), np.zeros(_PART, np.uint8)
    for row in range(_PART):
        expression, value = _expression(rng, length)
        tokens[row, : len(expression)] = expression
        values[row] = value
    return tokens, values


def _expression(rng: random.Random, length: int) -> tuple[list[int], int]:
    """An expression of a length that fits, and its value."""
    while True:
        tokens: list[int] = []
        value = _write(rng, tokens, _DEPTH, length)
        if length // 4 <= len(tokens) <= length:
            return tokens, value


def _write(rng: random.Random, tokens: list[int], depth: int, length: int) -> int:
    """Append an operation with its arguments; its value. Stops short where it grows too long."""
    kind = rng.randrange(len(_OPERATIONS))
    tokens.append(FIRST_OPERATION + kind)
    values = []
    for _ in range(rng.randint(*_ARGUMENTS)):
        if depth > 1 and rng.random() < _NESTED and len(tokens) <= length:
            values.append(_write(rng, tokens, depth - 1, length))
        else:
            values.append(rng.randrange(10))
            tokens.append(FIRST_DIGIT + values[-1])
    tokens.append(CLOSE)
    return _OPERATIONS[kind](values)
