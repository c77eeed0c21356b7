"""A list that is measured without looking back: a model's best, and some of an estimate's.

A model of records says little of what is unlike all that taught it. The estimates of one template
know every workload, and are wrong by what they leave out alone: where one is lost, the other often
is not, so that every eighth place is an estimate's. What the model holds for slower than most is
worth no measurement, though: an estimate that is wrong there puts its other favourites first for
the same reason, so the model has all places from there on.

Nothing waits for a time: all configurations of a list compile and run side by side, where a search
that learns pauses after each few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from autoq.search.search_space import SearchSpace
from autoq.search.strategies.climbing import Climber
from autoq.search.strategies.history import History
from autoq.search.strategies.ideas import Ideas
from autoq.search.strategies.prior_mean import Prior, PriorMean
from autoq.search.trial import Trial

C = TypeVar("C")

_ESTIMATE_EVERY = 8
"""One place in so many is an estimate's."""

_FASTEST_PART = 8
"""The model has to have an estimate's favourite among its fastest, one configuration in so many."""

_WHOLE = 4096
"""A space of so many combinations of knobs at most is looked at as a whole."""


class Listed(Generic[C]):
    """Asks for the places of a list one behind the other, whatever their trials come to.

    Of a large space the list is of random configurations and of what climbs from the best of them,
    by the prior and by the estimates of the template that the prior puts first; the fastest that it
    was told before the first question are climbed from as well. Behind the last place come random
    configurations.

    Args:
        space: what is searched.
        seed: of everything random.
        prior: what is known beforehand, the model. Without one the members of the space take turns,
            each by its own estimates, since those of two cannot be compared.
    """

    def __init__(self, space: SearchSpace[C], seed: int, prior: Prior | None = None) -> None:
        self._space = space
        self._history = History(space)
        self._rng = np.random.default_rng(seed)
        self._climber = Climber(space, self._rng, self._history, Ideas().climbs)
        self._mean = PriorMean(space, prior, self._climber.pool)
        self._left: list[int] | None = None

    def ask(self, n: int) -> list[C]:
        """At most n unseen legal configurations."""
        if self._left is None:
            self._left = self._listed()
        self._left = self._history.unseen(np.array(self._left, np.int64))
        return self._history.hand_out(self._history.fill(self._left, max(n, 0), self._rng))

    def tell(self, trials: Sequence[Trial[C]]) -> None:
        """Take in trials: what they measured is not asked for, and their times change nothing."""
        self._history.add(trials)

    def _listed(self) -> list[int]:
        # Where nothing tells two apart, the seed does.
        codes = self._rng.permutation(self._looked_at())
        if not len(codes):
            return []
        members = self._space.members_of(codes)
        slowness, estimates = self._mean.of(codes), self._mean.estimated(codes)
        if not self._mean.given:
            slowness = _turns(estimates, members)
        return codes[list_order(slowness, estimates, members, len(codes))].tolist()

    def _looked_at(self) -> np.ndarray:
        """Codes that the list is made of, int64 [n], each once."""
        space, members = self._space, range(self._space.member_count)
        if space.size <= _WHOLE:
            return np.array([space.code(config) for config in space.enumerate()], np.int64)
        if not self._mean.given:
            return np.concatenate([self._by_estimate(member) for member in members])
        codes, slowness = self._climber.climbed(members, lambda codes: self._mean.of(codes)[None])
        leading = int(space.members_of(codes[[int(np.argmin(slowness[0]))]])[0])
        return np.union1d(codes, self._by_estimate(leading))

    def _by_estimate(self, member: int) -> np.ndarray:
        """Random codes of a member and what climbs from the best of them by its estimates."""
        return self._climber.climbed([member], lambda codes: self._mean.estimated(codes)[None])[0]


def list_order(
    slowness: np.ndarray, estimates: np.ndarray, members: Sequence[Any] | np.ndarray, count: int
) -> np.ndarray:
    """Rows of the first so many places of a list, int64 [at most count], each once.

    slowness: log of the time as a model predicts it, float64 [n], n at least 1; estimates: what the
    members estimate, seconds or their log, float [n], NaN where there is none; members: which
    member each is of, [n].
    Estimates are those of the member that the model puts first, since those of two cannot be
    compared, and end at the first that the model does not have among its fastest eighth.
    """
    order = np.argsort(slowness, kind="stable")
    member = np.asarray(members)
    own = np.flatnonzero((member == member[order[0]]) & np.isfinite(estimates))
    by_estimate = own[np.lexsort((slowness[own], estimates[own]))]
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    slow = np.flatnonzero(place[by_estimate] >= max(_ESTIMATE_EVERY, len(order) // _FASTEST_PART))
    if len(slow):
        by_estimate = by_estimate[: slow[0]]
    found: dict[int, None] = {}
    by_model, others = _unlisted(order, found), _unlisted(by_estimate, found)
    while len(found) < min(count, len(order)):
        estimated = len(found) % _ESTIMATE_EVERY == _ESTIMATE_EVERY - 1
        row = next(others if estimated else by_model, None)
        found[next(by_model) if row is None else row] = None
    return np.array([*found], np.int64)


def _unlisted(rows: np.ndarray, found: dict[int, None]) -> Iterator[int]:
    """Rows that are not found yet when they are asked for."""
    return (row for row in rows.tolist() if row not in found)


def _turns(estimates: np.ndarray, members: np.ndarray) -> np.ndarray:
    """The place of each among those of its own member, float64 [n]."""
    found = np.empty(len(estimates))
    for member in np.unique(members).tolist():
        mine = np.flatnonzero(members == member)
        found[mine[np.argsort(estimates[mine], kind="stable")]] = np.arange(len(mine))
    return found
