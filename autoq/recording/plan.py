"""Which configurations of a workload are recorded: a seeded sequence that more samples continue."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from autoq.knowledge.climb import Slowness, climbed, opinion_of
from autoq.knowledge.model import KnowledgeModel
from autoq.records.recorded_space import DEFAULT, ESTIMATED, NEIGHBOUR, PREDICTED, UNIFORM
from autoq.search.search_space import ESTIMATE
from autoq.search.space import Space
from autoq.search.union import Candidate
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Workload

DRAWN = (DEFAULT, UNIFORM, ESTIMATED, NEIGHBOUR, PREDICTED)
"""How a configuration came to be recorded."""

# Of every eight configurations of a template four are uniform draws, two the best by its estimate
# of some hundred draws, and two one knob away from a default or from one of those two: a sample of
# the whole space, of where searches go, and of what lies beside that.
_ROUND = (UNIFORM, ESTIMATED, UNIFORM, NEIGHBOUR) * 2
# With a model of records half of them are what it expects to be fast: other workloads' fastest
# forms, which are so few of a space that draws hardly meet them.
_INFORMED_ROUND = (
    PREDICTED,
    UNIFORM,
    PREDICTED,
    ESTIMATED,
    PREDICTED,
    UNIFORM,
    PREDICTED,
    NEIGHBOUR,
)
# Random draws from which one climbs to what a member of a model puts first, and how many such a
# pool gives before the next member is asked.
_CLIMBED, _PREDICTED = 512, 4
# Uniform draws are made as many at once, since rules judge many configurations as fast as one.
_POOL = 128
# Draws for one neighbour that is new.
_TRIES = 16


@dataclass(frozen=True)
class Planned:
    """A configuration to record, and how it was drawn: one of DRAWN."""

    candidate: Candidate
    drawn: str


def planned(
    workload: Workload,
    templates: list[Template],
    target: Target,
    seed: int,
    exhaustive: bool = False,
    nearby: bool = False,
    model: KnowledgeModel | None = None,
) -> Iterator[Planned]:
    """Distinct legal configurations of all templates in turn, their defaults first.

    The same seed gives the same sequence, however much of it is taken; it ends where a template's
    space does. exhaustive: every legal configuration, template by template, as `default` or
    `uniform`. nearby: of each template those one knob away from its default, then those two knobs
    away, and so on. model: of records; of templates that it knows half is what it expects to be
    fast.
    """
    draws = [
        _Draws(workload, template, target, seed + i, model) for i, template in enumerate(templates)
    ]
    if exhaustive:
        for draw in draws:
            yield from draw.all()
        return
    sources = [draw.outwards() if nearby else draw.endless() for draw in draws]
    while sources:
        for source in list(sources):
            found = next(source, None)
            if found is None:
                sources.remove(source)
            else:
                yield found


class _Draws:
    """What is recorded of one template."""

    def __init__(
        self,
        workload: Workload,
        template: Template,
        target: Target,
        seed: int,
        model: KnowledgeModel | None,
    ) -> None:
        self._name = template.name
        self._space: Space[Any] = template.space(workload, target)
        self._default = template.default(workload, target)
        self._rng = np.random.default_rng(seed)
        self._seen: set[int] = set()
        self._good: list[int] = []
        self._pool: list[int] = []
        self._drawn: list[int] = []
        self._promising: list[int] = []
        self._asked = 0
        self._opinion: Callable[[int], Slowness] | None = None
        if model is not None and model.knows(template.name, template.version):
            self._opinion = functools.partial(
                opinion_of, model, workload, template.name, self._space, target
            )

    def all(self) -> Iterator[Planned]:
        """Every legal configuration, the default first."""
        yield Planned(Candidate(self._name, self._default), DEFAULT)
        for config in self._space.enumerate():
            if config != self._default:
                yield Planned(Candidate(self._name, config), UNIFORM)

    def outwards(self) -> Iterator[Planned]:
        """The default, then random ones of those that are ever more knobs away from it."""
        ring = [self._space.code(self._default)]
        yield self._taken(ring[0], DEFAULT)
        while ring:
            beyond = {code for one in ring for code in self._space.neighbour_codes(one).tolist()}
            ring = self._rng.permutation(sorted(beyond - self._seen)).tolist()
            for code in ring:
                yield self._taken(code, NEIGHBOUR)

    def endless(self) -> Iterator[Planned]:
        """The default, then rounds of draws until the space has no more."""
        code = self._space.code(self._default)
        self._good.append(code)
        yield self._taken(code, DEFAULT)
        while True:
            for drawn in _ROUND if self._opinion is None else _INFORMED_ROUND:
                found = self._draw(drawn)
                if found is None:
                    drawn, found = UNIFORM, self._uniform()
                    if found is None:
                        return
                yield self._taken(found, drawn)

    def _taken(self, code: int, drawn: str) -> Planned:
        self._seen.add(code)
        if drawn in (ESTIMATED, PREDICTED):
            self._good.append(code)
        return Planned(Candidate(self._name, self._space.config(code)), drawn)

    def _draw(self, drawn: str) -> int | None:
        if drawn == UNIFORM:
            return self._uniform()
        if drawn == PREDICTED:
            return self._predicted()
        return self._estimated() if drawn == ESTIMATED else self._neighbour()

    def _uniform(self) -> int | None:
        """The next of a pool of uniform draws that nothing else has taken meanwhile."""
        self._drawn = [code for code in self._drawn if code not in self._seen]
        if not self._drawn:
            codes = self._space.sample_codes(self._rng, _POOL, self._seen)
            self._drawn = codes.tolist()
        return self._drawn.pop(0) if self._drawn else None

    def _estimated(self) -> int | None:
        """The least estimate of a pool of draws, of which each pool gives two."""
        self._pool = [code for code in self._pool if code not in self._seen]
        if not self._pool:
            names = self._space.feature_names
            if ESTIMATE not in names:
                return None
            codes = self._space.sample_codes(self._rng, _POOL, self._seen)
            estimates = self._space.encode_codes(codes)[:, names.index(ESTIMATE)]
            self._pool = codes[np.argsort(estimates, kind="stable")][:2].tolist()
        return self._pool.pop(0) if self._pool else None

    def _predicted(self) -> int | None:
        """The fastest of what a pool of draws leads to, in the opinion of a member of the model."""
        self._promising = [code for code in self._promising if code not in self._seen]
        if not self._promising and self._opinion is not None:
            codes = self._space.sample_codes(self._rng, _CLIMBED, self._seen)
            if len(codes):
                codes, slow = climbed(self._space, codes, self._opinion(self._asked), self._rng)
                ranked = codes[np.argsort(slow, kind="stable")].tolist()
                new = (code for code in ranked if code not in self._seen)
                self._promising = list(islice(new, _PREDICTED))
                self._asked += 1
        return self._promising.pop(0) if self._promising else None

    def _neighbour(self) -> int | None:
        for _ in range(_TRIES):
            start = self._good[int(self._rng.integers(len(self._good)))]
            code = int(self._space.mutate_codes(np.array([start]), self._rng)[0])
            if code not in self._seen:
                return code
        return None
