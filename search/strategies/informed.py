"""The search that begins with what is known: estimates or a learnt model first, then trees.

Ours, beyond the paper. A random first batch is the greatest waste of a short search: what a
template estimates of its own time puts a few configurations above nearly all others. From the first
eight trials on, boosted trees learn times from features, the estimate among them, or what corrects
a model of records, and climb to what they predict to be fast. Batches are small, since each makes
the next one better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from autoq.search.search_space import SearchSpace
from autoq.search.strategies.estimated_model import ESTIMATE
from autoq.search.strategies.history import History
from autoq.search.strategies.ideas import Ideas
from autoq.search.strategies.shares import shares_of
from autoq.search.trial import Trial

if TYPE_CHECKING:
    import xgboost

C = TypeVar("C")

Prior = Callable[[np.ndarray], np.ndarray]
"""Log of the seconds of codes [n] up to a constant of the space, as far as they are known before
anything is measured: float64 [n], NaN where nothing is known."""

_TREES = {
    "max_depth": 4, "eta": 0.2, "min_child_weight": 1, "lambda": 1.0, "max_bin": 64,
    "objective": "reg:squarederror", "base_score": 0.0, "verbosity": 0,
}  # fmt: skip
_ROUNDS = 48
# Log of how much slower than the slowest success a failure counts.
_FAILURE = 0.7
# Of each member: random configurations that are always scored, and those that only one question
# has; of all together the fastest trials to climb from.
_POOL = 256
_NEWCOMERS = 16
_FASTEST = 16
# Climbing: the best so many of each ensemble are mutated.
_CLIMBERS = 32
_ALL = Ideas()


class Informed(Generic[C]):
    """Follows a prior for a first batch, then trees over all trials.

    Args:
        space: what is searched.
        seed: of everything random.
        prior: what is known beforehand, comparable between all members of a union; the templates'
            own estimates by default, which are compared within a member only.
        ideas: what the search does; all of it by default.
        nthread: threads of each ensemble.
    """

    def __init__(
        self,
        space: SearchSpace[C],
        seed: int,
        prior: Prior | None = None,
        ideas: Ideas = _ALL,
        nthread: int = 1,
    ) -> None:
        self._space = space
        self._history = History(space)
        self._rng = np.random.default_rng(seed)
        self._prior = prior
        self._ideas = ideas
        self._settings = {**_TREES, "nthread": nthread}
        self._seed = seed
        self._fits = 0
        self._middle: float | None = None
        self._strangers = [] if prior is None else _unknown_members(space, prior)
        self._pools: dict[int, np.ndarray] = {}
        self._stocks: dict[int, np.ndarray] = {}

    @property
    def batch(self) -> int:
        """Configurations to ask for at once, where the caller is free to choose."""
        return self._ideas.batch

    def ask(self, n: int) -> list[C]:
        """At most n unseen legal configurations."""
        if n < 1:
            return []
        chosen: list[int] = []
        if len(self._history.seconds) >= self._ideas.first and self._history.successes:
            chosen = self._by_models(n)
        elif self._ideas.prior:
            chosen = self._by_prior(n)
        return self._history.hand_out(self._history.fill(chosen, n, self._rng))

    def tell(self, trials: Sequence[Trial[C]]) -> None:
        """Take in trials; each further batch of them is learnt from at the next question."""
        self._history.add(trials)

    def _by_prior(self, n: int) -> list[int]:
        """The best by the prior and its doubts: of each member its share, or of all together.

        A prior that was given ranks the members that it knows together; each of the others has its
        share, the best by its estimates, since nothing else would ever try it.
        """
        members = [*range(self._space.member_count)]
        if self._prior is not None and not self._strangers:
            return self._best_by_prior(members, n)
        shares = shares_of(self._history, n)
        apart = members if self._prior is None else self._strangers
        together = [member for member in members if member not in apart]
        chosen = self._best_by_prior(together, int(shares[together].sum())) if together else []
        for member in apart:
            chosen += self._best_by_estimate(member, int(shares[member]))
        return chosen

    def _best_by_prior(self, members: Sequence[int], n: int) -> list[int]:
        return self._best(members, n, self._known, self._ideas.doubt_of_records)

    def _best_by_estimate(self, member: int, n: int) -> list[int]:
        return self._best([member], n, self._estimated, self._ideas.doubt) if n else []

    def _best(
        self,
        members: Sequence[int],
        n: int,
        guess: Callable[[np.ndarray], np.ndarray],
        doubt: float,
    ) -> list[int]:
        codes, guesses = self._climbed(members, lambda codes: guess(codes)[None])
        doubted = guesses[0] + doubt * self._rng.standard_normal(len(codes))
        return self._unseen(codes[np.argsort(doubted, kind="stable")], n)

    def _by_models(self, n: int) -> list[int]:
        """From each of the ensembles in turn the best that is left."""
        told, targets = self._targets()
        known, before = self._space.encode_codes(told), self._before(told)
        grown = partial(self._grown, known, targets - before - np.median(targets - before))
        models = [grown() for _ in range(min(self._ideas.models, n))]

        def scored(codes: np.ndarray) -> np.ndarray:
            features, before = self._space.encode_codes(codes), self._before(codes)
            found = np.array([model.inplace_predict(features) for model in models], np.float64)
            return found + before

        codes, scores = self._climbed(range(self._space.member_count), scored)
        orders = np.argsort(scores, axis=1, kind="stable")
        rankings = [iter(self._unseen(codes[order], len(codes))) for order in orders]
        chosen: dict[int, None] = {}
        while rankings and len(chosen) < n:
            for ranking in list(rankings):
                code = next((code for code in ranking if code not in chosen), None)
                if code is None:
                    rankings.remove(ranking)
                elif len(chosen) < n:
                    chosen[code] = None
        return list(chosen)

    def _targets(self) -> tuple[np.ndarray, np.ndarray]:
        """Codes of the trials, and their log seconds."""
        codes, seconds = self._history.arrays()
        worked = np.isfinite(seconds)
        logs = np.log(seconds, where=worked, out=np.zeros(len(codes)))
        logs[~worked] = logs[worked].max() + _FAILURE
        return codes, logs

    def _before(self, codes: np.ndarray) -> np.ndarray:
        """What trees correct: the prior of codes [n] where one was given, else nothing."""
        return np.zeros(len(codes)) if self._prior is None else self._known(codes)

    def _grown(self, features: np.ndarray, targets: np.ndarray) -> xgboost.Booster:
        """Trees over all trials, or over a resample where there are several ensembles."""
        import xgboost  # takes a second, in every process that knows spaces but never searches them

        drawn = np.arange(len(targets))
        if self._ideas.models > 1:
            drawn = self._rng.integers(0, len(targets), len(targets))
        self._fits += 1
        settings = {**self._settings, "seed": self._seed * 100_003 + self._fits}
        data = xgboost.DMatrix(features[drawn], targets[drawn], nthread=self._settings["nthread"])
        return xgboost.train(settings, data, _ROUNDS)

    def _known(self, codes: np.ndarray) -> np.ndarray:
        """The given prior of codes [n], float64 [n]; where it knows nothing a median.

        That is the median of the first question, so that what is known of a code never changes.
        """
        assert self._prior is not None
        found = self._prior(codes)
        if self._middle is None and np.isfinite(found).any():
            self._middle = float(np.nanmedian(found))
        return np.where(np.isnan(found), self._middle or 0.0, found)

    def _estimated(self, codes: np.ndarray) -> np.ndarray:
        """Log of the templates' estimates of codes [n]; the median of the others without one."""
        names = self._space.feature_names
        if ESTIMATE not in names:
            return np.zeros(len(codes))
        estimates = self._space.encode_codes(codes)[:, names.index(ESTIMATE)]
        estimates = estimates.astype(np.float64)
        found = np.full(len(codes), np.nan)
        np.log(estimates, where=estimates > 0, out=found)
        if np.isnan(found).all():
            return np.zeros(len(codes))
        return np.where(np.isnan(found), np.nanmedian(found), found)

    def _climbed(
        self, members: Sequence[int], score: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Codes of members: random ones, the fastest trials, and what mutation finds from the best.

        score gives float64 [models, n] of codes [n], the less the better. All models climb
        together, each from its own best, and each scores what any of them finds. Returns codes
        [n] and their scores.
        """
        wanted = np.isin(np.arange(self._space.member_count), list(members))
        fastest = self._fastest(wanted)
        codes = np.union1d(np.concatenate([self._drawn(member) for member in members]), fastest)
        scores = score(codes)
        for _ in range(self._ideas.climbs):
            best = np.argsort(scores, axis=1, kind="stable")[:, :_CLIMBERS]
            starts = np.concatenate([codes[best.ravel()], *[fastest] * len(scores)])
            mutants = self._space.mutate_codes(starts, self._rng, stay=True)
            mutants = np.setdiff1d(mutants[wanted[self._space.members_of(mutants)]], codes)
            if len(mutants):
                codes = np.concatenate([codes, mutants])
                scores = np.concatenate([scores, score(mutants)], axis=1)
        return codes, scores

    def _drawn(self, member: int) -> np.ndarray:
        """The member's pool, and newcomers from the second question on."""
        if member not in self._pools:
            self._pools[member] = self._space.sample_member(member, self._rng, _POOL)
            self._stocks[member] = self._pools[member][:0]
            return self._pools[member]
        stock = self._stocks[member]
        if len(stock) < _NEWCOMERS:
            # Many at once cost little more than a few.
            stock = self._space.sample_member(member, self._rng, _POOL)
        self._stocks[member] = stock[_NEWCOMERS:]
        return np.concatenate([self._pools[member], stock[:_NEWCOMERS]])

    def _fastest(self, wanted: np.ndarray) -> np.ndarray:
        """Codes of the fastest trials of the wanted members, fastest first: int64 [at most 16]."""
        codes, seconds = self._history.arrays()
        mine = wanted[self._space.members_of(codes)] & np.isfinite(seconds)
        order = np.argsort(seconds[mine], kind="stable")[:_FASTEST]
        return np.asarray(codes[mine][order])

    def _unseen(self, codes: np.ndarray, n: int) -> list[int]:
        found = [code for code in codes.tolist() if code not in self._history.seen]
        return list(dict.fromkeys(found))[:n]


def _unknown_members(space: SearchSpace[C], prior: Prior) -> list[int]:
    """Members of which a prior knows nothing, told by one configuration of each."""
    rng = np.random.default_rng(0)
    ones = [space.sample_member(member, rng, 1) for member in range(space.member_count)]
    return [i for i, codes in enumerate(ones) if len(codes) and np.isnan(prior(codes)).all()]
