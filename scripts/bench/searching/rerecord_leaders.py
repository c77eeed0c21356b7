"""Put the times of `bench_leaders.py measure` into the recorded spaces that they are of.

    python scripts/bench/searching/rerecord_leaders.py leaders.json

A recording times each configuration once, and a few of these times are some percent too short; the
fastest of a thousand is one of those. A configuration's new time is the median of its passes, each
of which times a space's configurations in turn, over what the controls took longer than their
recorded times, so that it compares with the times of what was not timed again. A space in which the
fastest and the controls do not agree on how much longer they take is left as it is: weights of many
megabytes are read from another memory where configurations are timed in turn.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from autoq.errors import RecordError
from autoq.knowledge.lessons import Lesson
from autoq.knowledge.training import lessons_of
from autoq.measure.job import REGISTRY, load_registry
from autoq.recording.known import known_as
from autoq.recording.naming import file_name
from autoq.records.recorded_space import RecordedWorkload, SpaceTrial, read_space, write_space
from autoq.replaying.loading import shipped_spaces
from autoq.search.knobs import plain_config
from autoq.templates.base import Template

_ALIKE = 0.03
"""How much leaders and controls may differ in what they take over their recorded times."""


def comparable(case: Mapping[str, Any]) -> bool:
    """Whether times of a case of `measure` compare with those that were recorded."""
    summary = case["summary"]
    shift = summary["leaders_over_recorded"] / summary["controls_over_recorded"]
    return abs(shift - 1) <= _ALIKE


def retimed(
    space: RecordedWorkload,
    lesson: Lesson,
    case: Mapping[str, Any],
    templates: Mapping[str, Template],
) -> RecordedWorkload:
    """A space with the times of a case of `measure`; lesson: of the space.

    Raises RecordError where the space is not as it was when that was measured.
    """
    order = np.argsort(lesson.seconds, kind="stable")
    shift = case["summary"]["controls_over_recorded"]
    new: dict[tuple[str, int, str], SpaceTrial] = {}
    for one in case["configurations"]:
        row = order[one["rank"]]
        name, recorded = lesson.templates[row], float(lesson.seconds[row] * 1e6)
        if name != one["template"] or abs(recorded - one["recorded_us"]) > 1e-3:
            raise RecordError(f"{case['name']}: its times have changed since they were measured")
        if one["us"] and None not in one["us"]:
            seconds = float(np.median(one["us"])) * 1e-6 / shift
            config, version = plain_config(lesson.configs[row]), templates[name].version
            trial = SpaceTrial(name, version, config, seconds, None, lesson.drawn[row])
            new[known_as(name, version, config)] = trial
    names = [known_as(t.template, t.version, t.config) for t in space.trials]
    kept = [t for t, name in zip(space.trials, names, strict=True) if name not in new]
    return replace(space, trials=(*kept, *new.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="what `bench_leaders.py measure` wrote")
    options = parser.parse_args()
    found = json.loads(options.source.read_text())
    cases = {case["name"]: case for case in found["cases"]}
    templates = load_registry(REGISTRY)
    for path in shipped_spaces():
        space = read_space(path)
        case = cases.get(file_name(space.workload))
        if case is not None and space.device.name == found["device"]:
            if not comparable(case):
                print(f"{case['workload']}: left as it is, {case['summary']}")
                continue
            (lesson,) = lessons_of([space], templates)
            try:
                write_space(path, retimed(space, lesson, case, templates))
            except RecordError as error:
                raise SystemExit(str(error)) from error
            print(f"{case['workload']}: {case['summary']}")


if __name__ == "__main__":
    main()
