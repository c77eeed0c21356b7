"""Expressions over lists that an encoder learns: their values, told by another evaluator."""

from __future__ import annotations

import numpy as np
from accuracy.list_expressions import (
    CLOSE,
    FIRST_DIGIT,
    FIRST_OPERATION,
    PADDING,
    VOCABULARY,
    expressions,
)


def value_of(tokens: np.ndarray) -> int:
    """Of an expression, by a stack; fails where something stands behind it."""
    stack: list[list[int]] = [[]]
    for token in tokens[tokens != PADDING].tolist():
        if token == CLOSE:
            operation, *values = stack.pop()
            middle = int(np.sort(values)[len(values) // 2])
            stack[-1].append([max(values), min(values), middle, sum(values) % 10][operation])
        elif token >= FIRST_DIGIT:
            stack[-1].append(token - FIRST_DIGIT)
        else:
            stack.append([token - FIRST_OPERATION])
    ((value,),) = stack
    return value


def test_expressions_have_their_values_and_differ_by_seed() -> None:
    tokens, values = expressions(1500, 96, seed=1, processes=1)
    assert tokens.shape == (1500, 96) and values.shape == (1500,)
    assert [value_of(row) for row in tokens[990:1100]] == values[990:1100].tolist()
    lengths = (tokens != PADDING).sum(axis=1)
    assert lengths.min() >= 24 and (tokens.max(), values.max()) == (VOCABULARY - 1, 9)
    assert all((row[:length] != PADDING).all() for row, length in zip(tokens, lengths, strict=True))
    others, _ = expressions(8, 96, seed=2, processes=1)
    assert not (others[:, None] == tokens[None]).all(axis=2).any()
