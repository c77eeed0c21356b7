"""The prior mean of a search: log seconds of configurations as believed before any trial."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from autoq.search.search_space import ESTIMATE, SearchSpace

C = TypeVar("C")

Prior = Callable[[np.ndarray], np.ndarray]
"""Log of the seconds of codes [n] up to a constant of the space, as far as they are known before
anything is measured: float64 [n], NaN where nothing is known."""


class PriorMean(Generic[C]):
    """What a prior and the templates' estimates say of the codes of a space.

    Args:
        space: what is searched.
        prior: what is known beforehand, comparable between all members of a union.
        pool: gives random codes of all members, always the same.

    Attributes:
        given: whether there is a prior, and it knows some member of the space.
        strangers: members that it does not know.
        estimate: column of the templates' estimates among the features, None without one.
    """

    def __init__(
        self, space: SearchSpace[C], prior: Prior | None, pool: Callable[[], np.ndarray]
    ) -> None:
        self._space, self._prior, self._pool = space, prior, pool
        self._shift = self._middle = math.nan
        self._believed: dict[int, float] = {}
        names = space.feature_names
        self.estimate = names.index(ESTIMATE) if ESTIMATE in names else None
        self.strangers = list(range(space.member_count))
        if prior is not None:
            self.strangers = _unknown_members(space, prior)
        self.given = len(self.strangers) < space.member_count

    def of(self, codes: np.ndarray) -> np.ndarray:
        """What is believed of codes [n]: the prior, zeros without one: float64 [n].

        Members that it does not know are compared with the others by their estimates, and where
        they have none stand at the median. Both are taken from the pool, so that what is believed
        of a code never changes.
        """
        if not self.given:
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
            drawn = self._pool()
            known, logs = self._prior(drawn), self._log_estimates(drawn)
            both = np.isfinite(known) & np.isfinite(logs)
            self._shift = float(np.median((logs - known)[both])) if both.any() else math.nan
            self._middle = float(np.nanmedian(known)) if np.isfinite(known).any() else 0.0
        found = self._prior(codes)
        strange = np.isnan(found)
        found[strange] = (self._log_estimates(codes) - self._shift)[strange]
        return np.where(np.isnan(found), self._middle, found)

    def estimated(self, codes: np.ndarray) -> np.ndarray:
        """Log of the templates' estimates of codes [n]; the median of the others without one."""
        found = self._log_estimates(codes)
        if np.isnan(found).all():
            return np.zeros(len(codes))
        return np.where(np.isnan(found), np.nanmedian(found), found)

    def _log_estimates(self, codes: np.ndarray) -> np.ndarray:
        """Log of the templates' estimates of codes [n], NaN without one."""
        found = np.full(len(codes), np.nan)
        if self.estimate is not None:
            estimates = self._space.encode_codes(codes)[:, self.estimate].astype(np.float64)
            np.log(estimates, where=estimates > 0, out=found)
        return found


def _unknown_members(space: SearchSpace[C], prior: Prior) -> list[int]:
    """Members of which a prior knows nothing, told by one configuration of each."""
    rng = np.random.default_rng(0)
    ones = [space.sample_member(member, rng, 1) for member in range(space.member_count)]
    return [i for i, codes in enumerate(ones) if len(codes) and np.isnan(prior(codes)).all()]
