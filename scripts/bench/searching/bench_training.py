"""What a model learns from, and what it weighs, compared by the untuned choices of left-out shapes.

The recorded spaces are put into groups by their shapes; models that have seen none of a group's
shapes take untuned choices of its workloads as `compile` does, and each is set beside the default
of the preferred template (`bench_knowledge.py`, which leaves each shape out by itself). Of large
spaces some hundred configurations teach. It needs no device.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from bench_knowledge import untuned

from autoq.knowledge.evaluation import Groups, leave_one_out
from autoq.knowledge.lessons import Lesson
from autoq.knowledge.shipped import shipped_records
from autoq.knowledge.training import gathered, lessons_of
from autoq.measure.job import REGISTRY, load_registry
from autoq.records.recorded_space import DEFAULT
from autoq.replaying.loading import shipped_spaces

VARIANTS = {
    f"slowness {slowness}{', records' if records else ''}": (slowness, records)
    for slowness in (1.5, 4.0)
    for records in (False, True)
}
"""By name: how much less slow trials weigh, and whether shipped records teach as well."""

_FASTEST = 20


def thinned(lesson: Lesson, most: int) -> Lesson:
    """So many random trials of a lesson that has more, with its fastest and its defaults."""
    count = len(lesson.seconds)
    if count <= most:
        return lesson
    kept = set(np.random.default_rng(0).choice(count, most, replace=False).tolist())
    kept |= set(np.argsort(lesson.seconds, kind="stable")[:_FASTEST].tolist())
    rows = sorted(kept | {i for i, drawn in enumerate(lesson.drawn) if drawn == DEFAULT})
    return lesson.part(rows)


def weighed(lessons: list[Lesson], slowness: float) -> list[Lesson]:
    """Lessons whose slow trials weigh that much less."""
    return [dataclasses.replace(one, slowness=slowness) for one in lessons]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folds", type=int, default=8, help="groups of shapes")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--most", type=int, default=300, help="configurations of a space")
    parser.add_argument("--operator", default="conv2d", help="of the workloads that are judged")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    templates = load_registry(REGISTRY)
    spaces = [
        thinned(one, options.most) for one in lessons_of(gathered(shipped_spaces()), templates)
    ]
    judged = [one for one in spaces if one.workload.operator == options.operator]
    others = [one for one in spaces if one.workload.operator != options.operator]
    records = lessons_of(gathered(shipped_records()), templates)
    data = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"), "operator": options.operator,
        "spaces": len(spaces), "records": len(records), "folds": options.folds,
        "seeds": options.seeds, "most": options.most, "variants": {},
    }  # fmt: skip
    for name, (slowness, taught) in VARIANTS.items():
        found = leave_one_out(
            weighed(judged, slowness), templates, options.seeds, jobs=options.jobs,
            groups=Groups(options.folds),
            besides=weighed([*others, *(records if taught else ())], slowness),
        )  # fmt: skip
        data["variants"][name] = untuned(found)
        print(name, data["variants"][name]["all"], flush=True)
        options.output.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
