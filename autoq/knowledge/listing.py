"""A list to measure without looking back: a model's best, and in every eighth place an estimate's.

A model of records says little of what is unlike all that taught it. The estimates of one template
know every workload, and are wrong by what they leave out alone: where one is lost, the other often
is not. What the model holds for slower than most is worth no measurement, though: an estimate that
is wrong there puts its other favourites first for the same reason, so the model has all places from
there on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

_EVERY = 8

_HOPEFUL = 8
"""The model has to have an estimate's favourite among its fastest, one configuration in so many."""


def listed(
    slowness: np.ndarray, estimates: np.ndarray, templates: Sequence[str], count: int
) -> np.ndarray:
    """Rows of the first so many configurations, int64 [at most count], each once.

    slowness: log of the time as a model predicts it, float64 [n]; estimates: seconds of the
    templates' own, float [n], NaN where there is none; templates: name of each. Estimates are those
    of the template that the model puts first, since those of two cannot be compared, and end at the
    first that the model does not have among its fastest eighth.
    """
    order = np.argsort(slowness, kind="stable")
    leading = np.array([name == templates[order[0]] for name in templates])
    own = np.flatnonzero(leading & np.isfinite(estimates))
    by_estimate = own[np.lexsort((slowness[own], estimates[own]))]
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    slow = np.flatnonzero(place[by_estimate] >= max(_EVERY, len(order) // _HOPEFUL))
    if len(slow):
        by_estimate = by_estimate[: slow[0]]
    found: dict[int, None] = {}
    by_model, others = _unlisted(order, found), _unlisted(by_estimate, found)
    while len(found) < min(count, len(order)):
        turn = others if len(found) % _EVERY == _EVERY - 1 else by_model
        row = next(turn, None)
        found[next(by_model) if row is None else row] = None
    return np.array([*found], np.int64)


def _unlisted(rows: np.ndarray, found: dict[int, None]) -> Iterator[int]:
    """Rows that are not found yet when they are asked for."""
    return (row for row in rows.tolist() if row not in found)
