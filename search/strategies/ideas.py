"""The ideas of the search that begins with what is known, and that search without each of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ideas:
    """What `Informed` does, so that each idea can be left out and measured.

    prior: whether a prior chooses until `first` trials are known, or else chance.
    first: trials that the prior alone chooses.
    doubt: deviation of the log times by which the templates' estimates are doubted.
    gaussian: whether a Gaussian process learns from the trials, or else trees.
    models: tree ensembles that choose in turn; one is fitted to all trials, several each to
        another resample of them.
    climbs: so often the best by each model are mutated; 0 ranks what was drawn at random.
    batch: configurations to ask for at once, where the caller is free to choose; `first` of them
        until as many are known.
    """

    prior: bool = True
    first: int = 4
    doubt: float = 0.3
    gaussian: bool = True
    models: int = 1
    climbs: int = 6
    batch: int = 8


WITHOUT = {
    "informed-without-prior": Ideas(prior=False),
    "informed-without-climbing": Ideas(climbs=0),
    "informed-with-trees": Ideas(gaussian=False, first=8),
    "informed-in-batches-of-32": Ideas(batch=32, first=32),
}
"""The search with one idea left out, by name."""

OTHERWISE = {"informed-of-eight-resamples": Ideas(gaussian=False, first=8, models=8)}
"""The search with what was no gain."""
