"""The search that begins with what is known, and corrects it by a Gaussian process of its trials.

Ours, beyond the paper. A random first batch is the greatest waste of a short search: what a
template estimates of its own time, or a model of records, puts a few configurations above nearly
all others. From the first trials on a Gaussian process (`gaussian.py`) learns times from features,
the estimate among them, or what corrects a model of records, and climbs to what may be fast by it.
How far the model is to be believed the trials themselves tell: part of each batch trusts it as far
as they make likely, part wholly and part not at all. Batches are small, since each makes the next
one better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from autoq.search.search_space import ESTIMATE, SearchSpace
from autoq.search.strategies.climbing import Climber
from autoq.search.strategies.gaussian import Beliefs, Ranks, Sites, fitted, unmeasured
from autoq.search.strategies.history import History
from autoq.search.strategies.ideas import Ideas
from autoq.search.strategies.shares import shares_of
from autoq.search.strategies.trees import Trees
from autoq.search.trial import Trial

C = TypeVar("C")

Prior = Callable[[np.ndarray], np.ndarray]
"""Log of the seconds of codes [n] up to a constant of the space, as far as they are known before
anything is measured: float64 [n], NaN where nothing is known."""

# Log of how much slower than the slowest success a failure counts.
_FAILURE = 0.7
# So many trials a process is given at most, this part of them the fastest: it takes time that grows
# with their square and more.
_GIVEN, _FAST_PART = 192, 2 / 3
# What chooses in turn: weight of a prior (None for the likeliest of _WEIGHTS), and deviations by
# which what is not known yet is hoped to be faster.
_ALONE = ((0.0, 0.0), (0.0, 0.5), (0.0, 1.0), (0.0, 1.5))
_INFORMED = ((None, 0.0), (1.0, 0.5), (None, 0.5), (0.0, 0.5))
_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
# A model of records before anything is measured: deviation of its errors, and how far they reach.
_DEVIATION, _REACH = 0.1, 1.4
_ALL = Ideas()


class Informed(Generic[C]):
    """Follows a prior for a first batch, then a Gaussian process of all trials.

    Args:
        space: what is searched.
        seed: of everything random.
        prior: what is known beforehand, comparable between all members of a union; the templates'
            own estimates by default, which are compared within a member only.
        ideas: what the search does; all of it by default.
        nthread: threads of trees, where ideas have them.
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
        self._trees = Trees(seed, nthread)
        self._ranks: Ranks | None = None
        self._shift = self._middle = math.nan
        self._believed: dict[int, float] = {}
        names = space.feature_names
        self._estimate = names.index(ESTIMATE) if ESTIMATE in names else None
        self._climber = Climber(space, self._rng, self._history, ideas.climbs)
        self._strangers = [] if prior is None else _unknown_members(space, prior)
        if len(self._strangers) == space.member_count:
            self._prior = None

    @property
    def batch(self) -> int:
        """Configurations to ask for at once, where the caller is free to choose."""
        few = len(self._history.seconds) < self._ideas.batch
        return min(self._ideas.first, self._ideas.batch) if few else self._ideas.batch

    def ask(self, n: int) -> list[C]:
        """At most n unseen legal configurations."""
        if n < 1:
            return []
        chosen: list[int] = []
        if len(self._history.seconds) >= self._ideas.first and self._history.successes:
            chosen = self._by_process(n) if self._ideas.gaussian else self._by_trees(n)
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
        members = range(self._space.member_count)
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
        """The best by the given prior, which errs alike for what is alike."""
        codes, _ = self._climber.climbed(members, lambda codes: self._before(codes)[None])
        codes = np.array(self._unseen(codes, len(codes)), np.int64)
        beliefs = unmeasured(self._sites(codes), _DEVIATION, _REACH)
        return self._taken(codes, [beliefs], [(0, 1.0)] * n)

    def _best_by_estimate(self, member: int, n: int) -> list[int]:
        if not n:
            return []
        codes, guesses = self._climber.climbed([member], lambda codes: self._estimated(codes)[None])
        doubted = guesses[0] + self._ideas.doubt * self._rng.standard_normal(len(codes))
        return self._unseen(codes[np.argsort(doubted, kind="stable")], n)

    def _by_process(self, n: int) -> list[int]:
        """What may be the fastest by processes that trust the prior differently, in turn."""
        told, targets = self._targets()
        given = self._given(targets)
        turns = _ALONE if self._prior is None else _INFORMED
        weights = (0.0,) if self._prior is None else _WEIGHTS
        found = fitted(self._sites(told[given]), targets[given], weights)
        fits = {fit.weight: fit for fit in found}
        likeliest = max(fits.values(), key=lambda fit: fit.likelihood).weight
        taking = [(likeliest if weight is None else weight, doubt) for weight, doubt in turns]
        used = sorted({weight for weight, _ in taking})

        def scored(codes: np.ndarray) -> np.ndarray:
            sites = self._sites(codes)
            found = {weight: fits[weight].beliefs(sites) for weight in used}
            return np.array([found[weight].bound(doubt) for weight, doubt in taking])

        codes, _ = self._climber.climbed(range(self._space.member_count), scored)
        codes = np.array(self._unseen(codes, len(codes)), np.int64)
        sites = self._sites(codes)
        beliefs = [fits[weight].beliefs(sites) for weight in used]
        places = [taking[(len(told) + i) % len(taking)] for i in range(n)]
        return self._taken(codes, beliefs, [(used.index(w), doubt) for w, doubt in places])

    def _taken(
        self, codes: np.ndarray, beliefs: Sequence[Beliefs], places: Sequence[tuple[int, float]]
    ) -> list[int]:
        """The code of least bound for each place: which of the beliefs, and how many deviations."""
        chosen: list[int] = []
        for which, doubt in places[: len(codes)]:
            bounds = beliefs[which].bound(doubt)
            bounds[chosen] = np.inf
            chosen.append(int(np.argmin(bounds)))
            for one in beliefs:
                one.take(chosen[-1])
        return [int(code) for code in codes[chosen]]

    def _given(self, targets: np.ndarray) -> np.ndarray:
        """Rows of the trials that a process is given: all, or the fastest and some of the rest."""
        if len(targets) <= _GIVEN:
            return np.arange(len(targets))
        order = np.argsort(targets, kind="stable")
        fast = int(_GIVEN * _FAST_PART)
        rest = self._rng.permutation(order[fast:])[: _GIVEN - fast]
        return np.concatenate([order[:fast], rest])

    def _sites(self, codes: np.ndarray) -> Sites:
        """Codes as a process sees them."""
        if self._ranks is None:
            reference = self._space.encode_codes(self._climber.pool())
            self._ranks = Ranks(reference, self._estimate)
        points = self._ranks.of(self._space.encode_codes(codes))
        return Sites(points, self._space.members_of(codes), self._before(codes))

    def _by_trees(self, n: int) -> list[int]:
        """From each of the ensembles in turn the best that is left."""
        told, targets = self._targets()
        known, before = self._space.encode_codes(told), self._before(told)
        rest = targets - before
        count = min(self._ideas.models, n)
        models = self._trees.grown(known, rest - np.median(rest), count, self._rng)

        def scored(codes: np.ndarray) -> np.ndarray:
            features, before = self._space.encode_codes(codes), self._before(codes)
            found = np.array([model.inplace_predict(features) for model in models], np.float64)
            return found + before

        codes, scores = self._climber.climbed(range(self._space.member_count), scored)
        orders = np.argsort(scores, axis=1, kind="stable")
        rankings = [self._unseen(codes[order], len(codes)) for order in orders]
        in_turn = [code for place in zip(*rankings, strict=True) for code in place]
        return list(dict.fromkeys(in_turn))[:n]

    def _targets(self) -> tuple[np.ndarray, np.ndarray]:
        """Codes of the trials, and their log seconds."""
        codes, seconds = self._history.arrays()
        worked = np.isfinite(seconds)
        logs = np.log(seconds, where=worked, out=np.zeros(len(codes)))
        logs[~worked] = logs[worked].max() + _FAILURE
        return codes, logs

    def _before(self, codes: np.ndarray) -> np.ndarray:
        """What is believed of codes [n] beforehand: the given prior, zeros without one.

        Members that it does not know are compared with the others by their estimates, and where
        they have none stand at the median. Both are taken from the random configurations of the
        beginning, so that what is believed of a code never changes.
        """
        if self._prior is None:
            return np.zeros(len(codes))
        asked = [code for code in dict.fromkeys(codes.tolist()) if code not in self._believed]
        if asked:
            found = self._prior_of(np.array(asked, np.int64))
            self._believed.update(zip(asked, found.tolist(), strict=True))
        return np.array([self._believed[code] for code in codes.tolist()], np.float64)

    def _prior_of(self, codes: np.ndarray) -> np.ndarray:
        """What is believed of codes [n] that were not asked for before."""
        assert self._prior is not None
        if math.isnan(self._middle):
            drawn = self._climber.pool()
            known, logs = self._prior(drawn), self._log_estimates(drawn)
            both = np.isfinite(known) & np.isfinite(logs)
            self._shift = float(np.median((logs - known)[both])) if both.any() else math.nan
            self._middle = float(np.nanmedian(known)) if np.isfinite(known).any() else 0.0
        found = self._prior(codes)
        strange = np.isnan(found)
        found[strange] = (self._log_estimates(codes) - self._shift)[strange]
        return np.where(np.isnan(found), self._middle, found)

    def _estimated(self, codes: np.ndarray) -> np.ndarray:
        """Log of the templates' estimates of codes [n]; the median of the others without one."""
        found = self._log_estimates(codes)
        if np.isnan(found).all():
            return np.zeros(len(codes))
        return np.where(np.isnan(found), np.nanmedian(found), found)

    def _log_estimates(self, codes: np.ndarray) -> np.ndarray:
        """Log of the templates' estimates of codes [n], NaN without one."""
        found = np.full(len(codes), np.nan)
        if self._estimate is not None:
            estimates = self._space.encode_codes(codes)[:, self._estimate].astype(np.float64)
            np.log(estimates, where=estimates > 0, out=found)
        return found

    def _unseen(self, codes: np.ndarray, n: int) -> list[int]:
        found = [code for code in codes.tolist() if code not in self._history.seen]
        return list(dict.fromkeys(found))[:n]


def _unknown_members(space: SearchSpace[C], prior: Prior) -> list[int]:
    """Members of which a prior knows nothing, told by one configuration of each."""
    rng = np.random.default_rng(0)
    ones = [space.sample_member(member, rng, 1) for member in range(space.member_count)]
    return [i for i, codes in enumerate(ones) if len(codes) and np.isnan(prior(codes)).all()]
