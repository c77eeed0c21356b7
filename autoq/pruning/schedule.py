"""Pruning in stages, with fine-tuning between them: algorithm 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autoq.errors import InputError
from autoq.pruning.importance import magnitude
from autoq.pruning.matrices import prune_matrices
from autoq.pruning.pattern import Pattern
from autoq.pruning.ranking import Bounds
from autoq.pruning.ties import NO_TIES, Joint, Ties, apart
from autoq.templates.sparse.pruned_matrix import Pruned

Matrices = Mapping[str, np.ndarray]
Score = Callable[[Matrices], Matrices]
"""The importance of every weight, [k, n] by name, of weights that are as they are now."""

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Stage:
    """A stage of pruning: weights [k, n] by name, the structure of each, and their sparsity."""

    sparsity: float
    weights: dict[str, np.ndarray]
    structures: dict[str, Pruned]

    @property
    def masks(self) -> dict[str, np.ndarray]:
        """bool [k, n] by name, True where a weight is kept."""
        return {name: one.mask for name, one in self.structures.items()}


@dataclass(frozen=True)
class Reads:
    """Which products read which.

    of: by name of a weight those whose products it multiplies, added up where they are several.
    joint: whether products that are added prune the same columns. heads: products whose columns go
    together, and how many consecutive ones. shared_rows: products that keep the same rows in all
    their tiles, as they read the same. columns: as in `Ties`, of products that others read.
    """

    of: Mapping[str, Sequence[str]]
    joint: bool = False
    heads: Sequence[tuple[Sequence[str], int]] = ()
    shared_rows: Sequence[Sequence[str]] = ()
    columns: float = 0.5


FineTune = Callable[[Stage], Matrices]
"""Trains the weights of a stage, with the loss that its masks leave, and returns them."""


def stage_sparsities(pattern: Pattern, sparsity: float, step: float) -> list[float]:
    """The sparsity of every stage, rising by `step` to `sparsity`.

    They are such as the pattern can have: tvw begins at what its vectors prune, and vw has
    multiples of a vector's share. Raises InputError for a step or sparsity that does not fit.
    """
    pattern.require_sparsity(sparsity)
    if not 0 < step <= 1:
        raise InputError(f"step {step:g}: how much sparser each stage is, above 0, such as 0.25")
    found: list[float] = []
    for number in range(1, math.ceil(sparsity / step - _ROUNDING) + 1):
        reached = max(min(sparsity, number * step), pattern.least)
        if pattern.kind == "vw":
            g = pattern.granularity
            reached = math.floor(reached * g + _ROUNDING) / g
        if reached > (found[-1] if found else 0.0) + _ROUNDING:
            found.append(reached)
    if found and abs(found[-1] - sparsity) < 1 / pattern.granularity:
        found[-1] = sparsity
    return found


def prune_in_stages(
    weights: Matrices,
    pattern: Pattern,
    sparsity: float,
    step: float,
    fine_tune: FineTune | None = None,
    score: Score | None = None,
    bounds: Mapping[str, Bounds] | None = None,
    reads: Reads | None = None,
) -> Stage:
    """The last stage of pruning weights [k, n] to `sparsity`, `step` further at a time.

    Each stage ranks the weights as the one before left them, by `score`, their magnitudes where
    None, prunes them, and has `fine_tune` train what is left; whatever that returns, what is
    pruned is zero in the result. `bounds` are those of `prune_matrices`, by name. With `reads`, tw
    and tvw prune rows of constant channels first.
    Raises InputError for options that do not fit, and for weights or scores of other shapes that a
    callback returns.
    """
    current = {name: np.array(one) for name, one in weights.items()}
    stage = Stage(0.0, current, {})
    ties = NO_TIES if reads is None else _ties(current, reads)
    limits = None if bounds is None else [bounds.get(name, Bounds()) for name in current]
    for reached in stage_sparsities(pattern, sparsity, step) or [0.0]:
        scores = score(current) if score else {n: magnitude(one) for n, one in current.items()}
        _require_alike(scores, current, "score")
        made = prune_matrices([scores[name] for name in current], pattern, reached, limits, ties)
        structures = dict(zip(current, made, strict=True))
        stage = Stage(reached, _masked(current, structures), structures)
        if fine_tune is not None:
            trained = fine_tune(stage)
            _require_alike(trained, current, "fine_tune")
            stage = Stage(reached, _masked(trained, structures), structures)
        current = stage.weights
    return stage


def _ties(weights: Matrices, reads: Reads) -> Ties:
    """What `prune_matrices` wants to know of products that read others."""
    places = {name: place for place, name in enumerate(weights)}
    named = [one for reader, read in reads.of.items() for one in (reader, *read)]
    for several in (*(names for names, _ in reads.heads), *reads.shared_rows):
        named += several
    for name in named:
        if name not in places:
            raise InputError(f"reads {name!r}: no weight; they are {', '.join(places)!s:.300}")
    sums = {tuple(sorted(places[one] for one in read)) for read in reads.of.values()}
    heads = [Joint(tuple(places[one] for one in names), run) for names, run in reads.heads]
    links = []
    for reader, read in reads.of.items():
        own = {places[one] for one in read}
        own |= {place for one in heads if own & {*one.places} for place in one.places}
        links.append((tuple(own), (places[reader],)))

    def dead_rows(columns: list[np.ndarray]) -> list[np.ndarray]:
        dead = [np.zeros(len(one), bool) for one in weights.values()]
        for reader, read in reads.of.items():
            kept = np.logical_or.reduce([columns[places[one]] for one in read])
            rows = dead[places[reader]]
            rows |= np.tile(~kept, len(rows) // len(kept))
        return dead

    joint = [Joint(one) for one in sorted(sums) if len(one) > 1] if reads.joint else []
    shared = [[places[one] for one in names] for names in reads.shared_rows]
    dead = dead_rows if reads.of else None
    return Ties(dead, joint + heads, shared, *apart(links), reads.columns)


def _masked(weights: Matrices, structures: Mapping[str, Pruned]) -> dict[str, np.ndarray]:
    return {name: np.where(one.mask, weights[name], 0) for name, one in structures.items()}


def _require_alike(given: Matrices, weights: Matrices, callback: str) -> None:
    for name, one in weights.items():
        if name not in given:
            raise InputError(f"{callback} returns nothing for the weight {name!r}")
        if given[name].shape != one.shape:
            raise InputError(
                f"{callback} returns {list(given[name].shape)} for the weight {name!r} of "
                f"{list(one.shape)}"
            )
