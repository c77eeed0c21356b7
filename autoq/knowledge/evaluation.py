"""How far a model carries: each workload ranked by a model that has not seen its shape."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass

import numpy as np

from autoq.knowledge.held_out import COUNTS, HeldOut, LeftOut
from autoq.knowledge.lessons import Lesson, preferred, shapes_of_templates
from autoq.knowledge.model import trained
from autoq.measure.job import REGISTRY, load_registry
from autoq.process.child import Child, Entry
from autoq.process.pool import ChildPool
from autoq.records.lookup import template_versions
from autoq.templates.base import Template

# A group takes minutes, of hundreds of spaces.
_SECONDS = 86400.0

PROMISES = (1.02, 1.03, 1.05, 1.1, 1.15)
"""How much faster than the default a choice may have to promise to be, to be looked at."""


@dataclass(frozen=True)
class Groups:
    """What is left out together: so many groups of shapes, 0 for each shape by itself.

    models: trained without a group, each of which serves several seeds; 0 for one each.
    """

    folds: int = 0
    models: int = 0


EACH = Groups()
"""Each shape is left out by itself, and every seed has a model of its own."""


def leave_one_out(
    lessons: Sequence[Lesson],
    templates: Mapping[str, Template],
    seeds: int,
    notify: Callable[[str], None] = lambda text: None,
    jobs: int = 1,
    least: int = 0,
    groups: Groups = EACH,
) -> list[LeftOut]:
    """Rank every lesson by models of all lessons of other shapes.

    jobs: processes, which take a group at a time, of registered templates if more than one; the
    result is the same with any number. least: lessons of fewer configurations are learnt from and
    not ranked. groups: what is left out together, and how often a model is trained.
    A lesson whose preferred template no other shape teaches is not ranked: nothing is known of it.
    """
    groupings: dict[str, list[Lesson]] = defaultdict(list)
    shapes = shapes_of_templates(lessons)
    for one in lessons:
        if len(one.seconds) >= least and len(shapes[preferred(one, templates).name]) > 1:
            group = (
                str(zlib.crc32(one.shape.encode()) % groups.folds) if groups.folds else one.shape
            )
            groupings[group].append(one)
    work = _Work(lessons, templates, seeds, groups.models or seeds)
    found: dict[str, list[LeftOut]] = {}
    for group, left in _each(work, groupings, jobs):
        found[group] = left
        for one in left:
            notify(f"{one.lesson.workload}: {np.median(one.shares, axis=0).round(3).tolist()}")
    return [one for group in groupings for one in found[group]]


def _each(
    work: _Work, groupings: Mapping[str, Sequence[Lesson]], jobs: int
) -> Iterator[tuple[str, list[LeftOut]]]:
    """What comes of each group, in the order of their ends."""
    if jobs == 1:
        for group, held in groupings.items():
            yield group, work.ranked(held)
        return
    begun = work.lessons, tuple(work.templates), work.seeds, work.models
    entry = Entry("autoq.knowledge.evaluation", "serve", begun)
    # Numpy's threads would wait for each other in loops, which takes time from processes beside.
    pool = ChildPool(lambda: Child(entry, {"OPENBLAS_NUM_THREADS": "1"}), jobs)
    try:
        futures: dict[Future[list[LeftOut]], str] = {
            pool.submit(lambda child, own=held: child.call(own, _SECONDS)): group
            for group, held in groupings.items()
        }
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.close()


def serve(
    begun: tuple[Sequence[Lesson], Sequence[str], int, int],
) -> Callable[[Sequence[Lesson]], list[LeftOut]]:
    """The handler of a child process: a group's lessons to what comes of them.

    begun: the fields of `_Work`, with names for the registered templates, which hold functions that
    none can send.
    """
    lessons, names, seeds, models = begun
    registered = load_registry(REGISTRY)
    return _Work(lessons, {name: registered[name] for name in names}, seeds, models).ranked


@dataclass(frozen=True)
class _Work:
    """What is done with each group of shapes."""

    lessons: Sequence[Lesson]
    templates: Mapping[str, Template]
    seeds: int
    models: int

    def ranked(self, lessons: Sequence[Lesson]) -> list[LeftOut]:
        """What models that have seen none of some lessons' shapes make of them."""
        held = [HeldOut(one, self.templates) for one in lessons]
        shapes = {one.shape for one in lessons}
        rest = [one for one in self.lessons if one.shape not in shapes]
        versions = template_versions(self.templates.values())
        for first in range(self.models):
            model = trained(rest, "", "", versions, "", first)
            for seed in range(first, self.seeds, self.models):
                for one in held:
                    one.rank(model, COUNTS, seed)
        return [one.left_out(COUNTS) for one in held]
