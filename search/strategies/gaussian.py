"""A Gaussian process over ranks of features: what few trials say of all other configurations.

Trees need dozens of trials to split on what matters; a process whose correlation falls with the
distance of configurations says something from the first few on, and how sure it is. Its kernel is
Matern's with nu = 5/2, lower between templates, and with a constant of each template's own; lengths
and noise are those of the largest marginal likelihood on a small grid (Rasmussen and Williams,
Gaussian Processes for Machine Learning, 2006, chapters 2 and 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# What ranks of all features vary by together is one; the lengths are in the unit of that.
_LENGTHS = (0.35, 0.7, 1.4, 2.8)
_NOISES = (0.01, 0.1, 0.4)
# Of a configuration of one template and one of another: correlation times this.
_BETWEEN = 0.4
# Variance of a template's own constant, over that of the process.
_CONSTANT = 1.0
_ROOT5 = 5.0**0.5
_TINY = 1e-9


class Ranks:
    """Where each feature of a configuration stands among those of some reference.

    Ranks make a knob of powers of two and a count of bytes alike. An estimate of the time counts as
    much as all of them together, as its logarithm.

    Args:
        reference: features [r, columns], NaN where a template lacks one.
        estimate: the column of the templates' estimates in seconds, None without one.
    """

    def __init__(self, reference: np.ndarray, estimate: int | None) -> None:
        self._columns: list[tuple[int, np.ndarray, np.ndarray]] = []
        total = 0.0
        for i, column in enumerate(reference.T.astype(np.float64)):
            known = column[np.isfinite(column)]
            values, counts = np.unique(known, return_counts=True)
            if len(values) < 2:
                continue
            ranks = (np.cumsum(counts) - counts / 2) / len(known) - 0.5
            self._columns.append((i, values, ranks))
            total += float((counts * ranks**2).sum()) / len(column)
        self._unit = max(total, _TINY) ** 0.5
        self._estimate = estimate
        logs = np.empty(0) if estimate is None else _logs(reference[:, estimate])
        known = logs[np.isfinite(logs)]
        self._centre = float(known.mean()) if len(known) else 0.0
        self._spread = max(float(known.std()), _TINY) if len(known) else 1.0

    def of(self, features: np.ndarray) -> np.ndarray:
        """Points float64 [n, dimensions] of features [n, columns]; what is unknown is central."""
        points = np.zeros((len(features), len(self._columns) + (self._estimate is not None)))
        for j, (i, values, ranks) in enumerate(self._columns):
            column = features[:, i].astype(np.float64)
            known = np.isfinite(column)
            points[known, j] = np.interp(column[known], values, ranks) / self._unit
        if self._estimate is not None:
            logs = _logs(features[:, self._estimate])
            points[:, -1] = np.nan_to_num((logs - self._centre) / self._spread)
        return points


def _logs(estimates: np.ndarray) -> np.ndarray:
    found = np.full(len(estimates), np.nan)
    np.log(estimates.astype(np.float64), where=estimates > 0, out=found)
    return found


@dataclass(frozen=True)
class Sites:
    """Configurations as a process sees them.

    points: float64 [n, dimensions]; members: template of each, int64 [n]; priors: what is believed
    of their targets beforehand, float64 [n].
    """

    points: np.ndarray
    members: np.ndarray
    priors: np.ndarray

    def __len__(self) -> int:
        return len(self.points)

    def at(self, rows: Sequence[int] | np.ndarray) -> Sites:
        """Some of them."""
        return Sites(self.points[rows], self.members[rows], self.priors[rows])


def covariance(first: Sites, second: Sites, length: float) -> np.ndarray:
    """Of the targets of sites, over the variance of the process: float64 [first, second]."""
    squares = (first.points**2).sum(axis=1)[:, None] + (second.points**2).sum(axis=1)[None]
    squares -= 2 * first.points @ second.points.T
    scaled = np.sqrt(np.maximum(squares, 0)) * (_ROOT5 / length)
    found = (1 + scaled + scaled**2 / 3) * np.exp(-scaled)
    same = first.members[:, None] == second.members[None]
    return np.asarray(found * np.where(same, 1.0, _BETWEEN) + _CONSTANT * same)


@dataclass(frozen=True)
class Fit:
    """A process given trials, with a weight of the prior.

    whitener: inverse of the Cholesky factor of the trials' covariance, and white what it makes of
    what the targets differ by from prior and centre; likelihood: the logarithm, up to a constant.
    """

    sites: Sites
    weight: float
    length: float
    noise: float
    centre: float
    variance: float
    whitener: np.ndarray
    white: np.ndarray
    likelihood: float

    def beliefs(self, sites: Sites) -> Beliefs:
        """What it says of other sites."""
        basis = self.whitener @ covariance(self.sites, sites, self.length)
        means = self.white @ basis + self.weight * sites.priors + self.centre
        return Beliefs(sites, means, self.variance, self.length, self.noise, basis)


def fitted(sites: Sites, targets: np.ndarray, weights: Sequence[float]) -> list[Fit]:
    """For each weight of the prior the likeliest process with it, given targets [n] of sites."""
    best: dict[float, Fit] = {}
    for length in _LENGTHS:
        kernel = covariance(sites, sites, length)
        for noise in _NOISES:
            factor = np.linalg.cholesky(kernel + noise * np.eye(len(sites)))
            scale, whitener = float(np.log(np.diag(factor)).sum()), np.linalg.inv(factor)
            for weight in weights:
                rest = targets - weight * sites.priors
                centre = float(np.median(rest))
                white = whitener @ (rest - centre)
                variance = max(float(white @ white) / len(sites), _TINY)
                likelihood = -0.5 * len(sites) * np.log(variance) - scale
                if weight not in best or likelihood > best[weight].likelihood:
                    best[weight] = Fit(
                        sites, weight, length, noise, centre, variance, whitener, white, likelihood
                    )
    return [best[weight] for weight in weights]


class Beliefs:
    """Means of sites' targets, and how much is not known yet, given what was taken besides.

    basis: float64 [given, n], whose columns' squares are what is known already.
    """

    def __init__(
        self,
        sites: Sites,
        means: np.ndarray,
        variance: float,
        length: float,
        noise: float,
        basis: np.ndarray,
    ) -> None:
        self._sites, self._means, self._basis = sites, means, basis
        self._scale, self._length, self._noise = variance, length, noise
        self._left = 1 + _CONSTANT - (basis**2).sum(axis=0)

    def bound(self, doubt: float) -> np.ndarray:
        """Means less so many deviations, float64 [n]."""
        return np.asarray(self._means - doubt * np.sqrt(np.maximum(self._left, 0) * self._scale))

    def take(self, site: int) -> None:
        """From here on a site counts as measured, whatever that will say."""
        own = covariance(self._sites.at([site]), self._sites, self._length)[0]
        own -= self._basis[:, site] @ self._basis
        own /= np.sqrt(max(self._left[site], 0) + self._noise)
        self._basis = np.vstack([self._basis, own])
        self._left = self._left - own**2


def unmeasured(sites: Sites, deviation: float, length: float) -> Beliefs:
    """The priors of sites before any trial, doubted by a deviation that neighbours share."""
    variance = deviation**2 / (1 + _CONSTANT)
    return Beliefs(sites, sites.priors, variance, length, _NOISES[0], np.zeros((0, len(sites))))
