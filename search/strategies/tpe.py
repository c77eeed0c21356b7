"""TPE, the tree-structured Parzen estimator of Optuna: an option for who has Optuna installed.

Source: Bergstra et al., "Algorithms for Hyper-Parameter Optimization"; optuna.samplers.TPESampler.
Optuna knows no rules between knobs, so what it suggests is a wish: of random legal configurations
and moves from the fastest trials the one that differs from it in fewest knobs is measured, and its
time is told as the wish's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any, Generic, TypeVar

import numpy as np

from autoq.errors import EnvironmentFault
from autoq.search.search_space import SearchSpace
from autoq.search.strategies.history import History
from autoq.search.trial import Trial

C = TypeVar("C")

# Legal configurations that a wish may come to: drawn once, and moves from the fastest each time.
_DRAWN, _FASTEST, _MOVES = 2048, 16, 8
# Log of how much slower than the slowest success a failure counts.
_FAILURE = 0.7


class Tpe(Generic[C]):
    """Optuna's TPE over the positions of the knobs' values, those of the template that it chose.

    Args:
        space: what is searched.
        seed: of everything random.

    Raises:
        EnvironmentFault: without Optuna.
    """

    batch = 8

    def __init__(self, space: SearchSpace[C], seed: int) -> None:
        try:
            import optuna
        except ImportError as error:
            raise EnvironmentFault(f"strategy 'tpe' needs Optuna: {error}") from error
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = space
        self._history = History(space)
        self._rng = np.random.default_rng(seed)
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        self._study = optuna.create_study(sampler=sampler)
        self._running: dict[int, Any] = {}
        self._slowest = 0.0
        self._drawn = space.sample_codes(self._rng, _DRAWN)
        rows, members = space.knob_rows(self._drawn), space.members_of(self._drawn)
        self._members = np.unique(members).tolist()
        self._first = {member: rows[members == member][0] for member in self._members}
        self._bounds = {
            member: list(zip(rows[members == member].min(axis=0).tolist(),
                             rows[members == member].max(axis=0).tolist(), strict=True))
            for member in self._members
        }  # fmt: skip

    def ask(self, n: int) -> list[C]:
        """At most n unseen legal configurations."""
        codes = self._candidates() if n > 0 else np.empty(0, dtype=np.int64)
        rows = self._space.knob_rows(codes) if len(codes) else np.empty((0, 0))
        wanted: list[int] = []
        free = np.ones(len(codes), dtype=bool)
        for _ in range(min(n, len(codes))):
            trial, wish = self._wish()
            distance = np.where(free, (rows != wish).sum(axis=1), rows.shape[1] + 1)
            pick = int(self._rng.choice(np.flatnonzero(distance == distance.min())))
            free[pick] = False
            wanted.append(int(codes[pick]))
            self._running[int(codes[pick])] = trial
        return self._history.hand_out(self._history.fill(wanted, n, self._rng))

    def tell(self, trials: Sequence[Trial[C]]) -> None:
        """Take in trials; of those that Optuna did not wish for only the fastest guide moves."""
        self._history.add(trials)
        for trial in trials:
            code = self._space.code(trial.config) if trial.config in self._space else None
            if trial.seconds is not None:
                self._slowest = max(self._slowest, trial.seconds)
            wish = None if code is None else self._running.pop(code, None)
            if wish is not None:
                slow = log(self._slowest) + _FAILURE if self._slowest else 0.0
                value = slow if trial.seconds is None else log(trial.seconds)
                self._study.tell(wish, value)

    def _candidates(self) -> np.ndarray:
        codes, seconds = self._history.arrays()
        worked = np.isfinite(seconds)
        order = np.argsort(seconds[worked], kind="stable")[:_FASTEST]
        near = np.repeat(codes[worked][order], _MOVES)
        moved = self._space.mutate_codes(near, self._rng) if len(near) else near
        seen = np.fromiter(self._history.seen, np.int64, len(self._history.seen))
        return np.setdiff1d(np.concatenate([self._drawn, moved]), seen)

    def _wish(self) -> tuple[Any, np.ndarray]:
        """What Optuna suggests: its trial, and a row of knob positions, int64 [knobs]."""
        trial = self._study.ask()
        member = self._members[0]
        if len(self._members) > 1:
            member = trial.suggest_categorical("member", self._members)
        wish = self._first[member].copy()
        for knob, (low, high) in enumerate(self._bounds[member]):
            if low < high:
                wish[knob] = trial.suggest_int(f"{member}.{knob}", low, high)
        return trial, wish
