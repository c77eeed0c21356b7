"""Legal codes beside legal codes: one random knob of each has another value."""

from __future__ import annotations

import numpy as np

from autoq.search.knobs import Knobs
from autoq.search.legality import Legality

# Draws of a mutant, those of all codes judged together, before its neighbours are.
DRAWS = (3, 9)


def mutants(
    knobs: Knobs, legality: Legality, codes: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """One legal mutant code int64 [n] for each of legal codes [n].

    One without a legal neighbour becomes a sampled other one, or stays where it is alone.
    """
    found = codes.copy()
    movable = np.flatnonzero(knobs.dims > 1)
    if not len(movable):
        return found
    todo = np.arange(len(codes))
    for draws in DRAWS:
        # Judged together, and of each code's draws the first legal one counts.
        drawn = [_one_knob_changed(knobs, codes[todo], movable, rng) for _ in range(draws)]
        legal = legality.mask(np.concatenate(drawn)).reshape(draws, len(todo))
        done = legal.any(axis=0)
        found[todo[done]] = np.stack(drawn)[legal.argmax(axis=0), np.arange(len(todo))][done]
        todo = todo[~done]
        if not len(todo):
            return found
    for i in todo.tolist():
        found[i] = _neighbour_or_sample(knobs, legality, int(codes[i]), rng)
    return found


def _one_knob_changed(
    knobs: Knobs, codes: np.ndarray, movable: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Codes [n] with one random knob of each set to another value, legal or not."""
    knob = movable[rng.integers(0, len(movable), len(codes))]
    dims, strides = knobs.dims[knob], knobs.strides[knob]
    old = codes // strides % dims
    new = (old + rng.integers(1, dims)) % dims
    return np.asarray(codes + (new - old) * strides)


def _neighbour_or_sample(
    knobs: Knobs, legality: Legality, code: int, rng: np.random.Generator
) -> int:
    """A random legal code one knob away, or a sampled other one; code when it is alone."""
    beside = neighbours(knobs, legality, code)
    if len(beside):
        return int(rng.choice(beside))
    sampled = legality.sample(rng, 1, {code})
    return int(sampled[0]) if len(sampled) else code


def neighbours(knobs: Knobs, legality: Legality, code: int) -> np.ndarray:
    """All legal codes one knob away from a code, in the order of knobs and values: int64 [n]."""
    index = knobs.indices(np.array([code]))[0]
    beside = np.concatenate(
        [
            code + (np.arange(dim) - at) * stride
            for dim, at, stride in zip(knobs.dims, index, knobs.strides, strict=True)
        ]
    )
    return np.asarray(beside[legality.mask(beside) & (beside != code)])
