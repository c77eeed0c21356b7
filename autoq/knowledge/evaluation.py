"""How far a model carries: each workload ranked by a model that has not seen its shape."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass

import numpy as np

from autoq.knowledge.held_out import COUNTS, HeldOut, LeftOut, joined
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
    part: str = "",
) -> list[LeftOut]:
    """Rank every lesson by models of all lessons of other shapes.

    jobs: processes, which take a model at a time, of registered templates if more than one; the
    result is the same with any number. least: lessons of fewer configurations are learnt from and
    not ranked, nor are those of workloads whose names do not begin with `part`. groups: what is
    left out together, and how often a model is trained.
    A lesson whose preferred template no other shape teaches is not ranked: nothing is known of it.
    """
    groupings: dict[str, list[Lesson]] = defaultdict(list)
    shapes = shapes_of_templates(lessons)
    for one in lessons:
        asked = len(one.seconds) >= least and str(one.workload).startswith(part)
        if asked and len(shapes[preferred(one, templates).name]) > 1:
            group = (
                str(zlib.crc32(one.shape.encode()) % groups.folds) if groups.folds else one.shape
            )
            groupings[group].append(one)
    models = min(groups.models or seeds, seeds)
    work = _Work(lessons, templates, seeds, models)
    found: dict[str, dict[int, list[LeftOut]]] = defaultdict(dict)
    ranked: dict[str, list[LeftOut]] = {}
    for group, first, left in _each(work, groupings, jobs):
        found[group][first] = left
        if len(found[group]) == models:
            by_model = [found[group][i] for i in range(models)]
            ranked[group] = [joined(own) for own in zip(*by_model, strict=True)]
            for one in ranked[group]:
                notify(f"{one.lesson.workload}: {np.median(one.shares, axis=0).round(3).tolist()}")
    return [one for group in groupings for one in ranked[group]]


def _each(
    work: _Work, groupings: Mapping[str, Sequence[Lesson]], jobs: int
) -> Iterator[tuple[str, int, list[LeftOut]]]:
    """A group, a model's number, and what that makes of the group, in the order of their ends."""
    tasks = [(group, first) for group in groupings for first in range(work.models)]
    if jobs == 1:
        for group, first in tasks:
            yield group, first, work.ranked(groupings[group], first)
        return
    begun = work.lessons, tuple(work.templates), work.seeds, work.models
    entry = Entry("autoq.knowledge.evaluation", "serve", begun)
    # Numpy's threads would wait for each other in loops, which takes time from processes beside.
    pool = ChildPool(lambda: Child(entry, {"OPENBLAS_NUM_THREADS": "1"}), jobs)
    try:
        futures: dict[Future[list[LeftOut]], tuple[str, int]] = {
            pool.submit(
                lambda child, own=(groupings[group], first): child.call(own, _SECONDS)
            ): (group, first)
            for group, first in tasks
        }  # fmt: skip
        for future in as_completed(futures):
            yield *futures[future], future.result()
    finally:
        pool.close()


def serve(
    begun: tuple[Sequence[Lesson], Sequence[str], int, int],
) -> Callable[[tuple[Sequence[Lesson], int]], list[LeftOut]]:
    """The handler of a child process: a group's lessons and a model's number to what comes of them.

    begun: the fields of `_Work`, with names for the registered templates, which hold functions that
    none can send.
    """
    lessons, names, seeds, models = begun
    registered = load_registry(REGISTRY)
    work = _Work(lessons, {name: registered[name] for name in names}, seeds, models)
    return lambda asked: work.ranked(*asked)


@dataclass(frozen=True)
class _Work:
    """What is done with each group of shapes."""

    lessons: Sequence[Lesson]
    templates: Mapping[str, Template]
    seeds: int
    models: int

    def ranked(self, lessons: Sequence[Lesson], first: int) -> list[LeftOut]:
        """What a model that has seen none of some lessons' shapes makes of them.

        first: number of the model, and its first seed; every so many models later is another one.
        """
        held = [HeldOut(one, self.templates) for one in lessons]
        shapes = {one.shape for one in lessons}
        rest = [one for one in self.lessons if one.shape not in shapes]
        versions = template_versions(self.templates.values())
        model = trained(rest, "", "", versions, "", first)
        for seed in range(first, self.seeds, self.models):
            for one in held:
                one.rank(model, COUNTS, seed)
        return [one.left_out(COUNTS) for one in held]
