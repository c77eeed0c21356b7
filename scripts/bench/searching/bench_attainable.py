"""What a model of records could reach at most: how few are fast, and a model with own trials.

Of each large recorded space, how many configurations are within 3% and 1% of the best. Then half of
its configurations are drawn at random, and a model of nothing else orders the other half: best
speed among its first 8 and 32 as shares of that half's best, beside that of a model of all other
shapes, which saw nothing of this one. Where the former is no better, it is not the shape that is
strange: the features of configurations do not say which is the fastest. It needs no device.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timezone
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from autoq.knowledge.lessons import Lesson, preferred, shapes_of_templates
from autoq.knowledge.model import trained
from autoq.knowledge.training import gathered, lessons_of
from autoq.measure.job import REGISTRY, load_registry
from autoq.records.lookup import template_versions
from autoq.replaying.loading import shipped_spaces
from autoq.templates.base import Template

_COUNTS = 8, 32
_WITHIN = 0.97, 0.99


def shares(lesson: Lesson, rest: Sequence[Lesson], versions: Mapping[str, int]) -> list[float]:
    """Best speed in the first so many of a model's order, as shares of the lesson's best."""
    model = trained(rest, "", "", versions, "")
    order = np.argsort(model.predict(lesson.matrix(model.columns)), kind="stable")
    best = lesson.seconds.min()
    return [round(float(best / lesson.seconds[order[:count]].min()), 4) for count in _COUNTS]


def row(lesson: Lesson, others: Sequence[Lesson], seeds: int) -> dict[str, Any]:
    """A space's line of the result."""
    templates = load_registry(REGISTRY)
    versions = template_versions(templates.values())
    speeds = lesson.seconds.min() / lesson.seconds
    own, strange = [], []
    for seed in range(seeds):
        mixed = np.random.default_rng(seed).permutation(len(lesson.seconds))
        learnt, left = np.split(mixed, [len(mixed) // 2])
        asked = lesson.part(np.sort(left))
        own.append(shares(asked, [lesson.part(np.sort(learnt))], versions))
        strange.append(shares(asked, others, versions))
    print(f"{lesson.workload}: {own} {strange}", flush=True)
    return {
        "workload": str(lesson.workload),
        "dtype": str(lesson.workload.key_fields().get("in_dtype", "")),
        "configurations": len(speeds),
        "within": {str(least): int((speeds >= least).sum()) for least in _WITHIN},
        "of_half_of_its_trials": own,
        "without_its_shape": strange,
    }


def ranked(
    lessons: Sequence[Lesson], templates: Mapping[str, Template], least: int
) -> list[Lesson]:
    """Lessons of enough configurations whose preferred template another shape has trials of."""
    shapes = shapes_of_templates(lessons)
    return [
        one for one in lessons
        if len(one.seconds) >= least and len(shapes[preferred(one, templates).name]) > 1
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--least", type=int, default=1000, help="configurations of a space")
    parser.add_argument("--seeds", type=int, default=4, help="halves of each space")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    templates = load_registry(REGISTRY)
    lessons = lessons_of(gathered(shipped_spaces()), templates)
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        futures = [
            pool.submit(
                row, one, [other for other in lessons if other.shape != one.shape], options.seeds
            )
            for one in ranked(lessons, templates, options.least)
        ]
        rows = [one.result() for one in futures]
    data = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "measurements": list(_COUNTS),
        "seeds": options.seeds,
        "cases": rows,
    }
    options.output.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
