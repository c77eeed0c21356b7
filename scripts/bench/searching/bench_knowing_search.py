"""Searches that begin with a model of records, replayed on recorded spaces beside others.

The model of each space has seen no workload of its shape, whatever the batch, dtypes and layout.
`informed-knowing` is the default strategy with that model as its prior, and `listed-knowing` asks
for the places of its list; the other strategies know nothing beforehand. `informed-after-defaults`
begins as `autoq tune` does, with the untuned default of each template, which count as trials. It
needs no device.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from autoq.knowledge.lessons import Lesson, shape_of
from autoq.knowledge.model import KnowledgeModel, trained
from autoq.knowledge.prior import prior_of
from autoq.knowledge.training import gathered, lessons_of
from autoq.measure.job import REGISTRY, load_registry
from autoq.records.lookup import template_versions
from autoq.replaying.comparison import SpaceComparison
from autoq.replaying.loading import Replayable, load, shipped_spaces, target_of
from autoq.replaying.plot import draw
from autoq.replaying.report import overall, table, to_json
from autoq.search.compare import FRACTIONS, Comparison, summarise
from autoq.search.registry import KNOWING, STRATEGIES, MakeStrategy
from autoq.search.replay import optimum, replay
from autoq.search.strategies.informed import Informed
from autoq.search.strategies.prior_mean import Prior
from autoq.search.union import Candidate
from autoq.templates.base import Template
from autoq.templates.registry import matching

AFTER_DEFAULTS = "informed-after-defaults"
KNOWING_MAKERS = {f"{name}-knowing": make for name, make in KNOWING.items()}


def remembered(prior: Prior, found: Replayable) -> Prior:
    """A prior of a recorded space's codes that is asked once."""
    codes = np.sort([found.space.code(one) for one in found.space.enumerate()])
    known = prior(codes)
    return lambda asked: known[np.searchsorted(codes, asked)]


def defaults(found: Replayable, templates: Mapping[str, Template]) -> list[Candidate]:
    """The untuned default of each template that was recorded, the preferred template's first."""
    workload, target = found.recorded.workload, target_of(found.recorded)
    fitting = [one for one in matching(workload, target, list(templates.values())) if one.tunable]
    untuned = [Candidate(one.name, one.default(workload, target)) for one in fitting]
    return [one for one in untuned if one in found.measured]


def rows_of(
    found: Replayable,
    makers: Mapping[str, MakeStrategy],
    first: Sequence[Candidate],
    seeds: int,
    trials: int,
) -> tuple[Comparison, ...]:
    """Every strategy replayed with seeds 0, 1, ..., each in batches of its own size.

    first: what the one after defaults begins with.
    """
    rows, best = [], optimum(found.measured)
    for name, make in makers.items():
        begun = first if name == AFTER_DEFAULTS else ()
        curves = []
        for seed in range(seeds):
            strategy = make(found.space, seed)
            curves.append(replay(strategy, found.measured, trials, None, begun, best))
        row = summarise(name, curves, best, trials, FRACTIONS)
        print(f"{found.recorded.workload} {name}: {row.median} ({row.p90})", flush=True)
        rows.append(row)
    return tuple(rows)


def compared(
    paths: Sequence[Path], lessons: Sequence[Lesson], options: argparse.Namespace
) -> list[SpaceComparison]:
    """The comparison of each space that holds enough configurations."""
    templates = load_registry(REGISTRY)
    versions = template_versions(templates.values())
    models: dict[str, KnowledgeModel] = {}
    names = options.strategies.split(",")
    found = []
    for path in paths:
        one = load(path, templates)
        if len(one.measured) < options.least:
            continue
        makers: dict[str, MakeStrategy] = {AFTER_DEFAULTS: Informed, **STRATEGIES}
        if not KNOWING_MAKERS.keys().isdisjoint(names):
            recorded = one.recorded
            shape = shape_of(recorded.workload)
            if shape not in models:
                rest = [lesson for lesson in lessons if lesson.shape != shape]
                models[shape] = trained(rest, "", "", versions, "")
            prior = prior_of(
                models[shape], recorded.workload, one.union, target_of(recorded), versions
            )
            known = remembered(prior, one)
            makers |= {name: partial(make, prior=known) for name, make in KNOWING_MAKERS.items()}
        makers = {name: makers[name] for name in names}
        begun = defaults(one, templates)
        rows = rows_of(one, makers, begun, options.seeds, options.trials)
        found.append(SpaceComparison(path, one, rows))
    return found


def completed(data: dict[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """A result with the rows of strategies that were replayed earlier on the same spaces.

    Raises SystemExit where the earlier result lacks a space, or has another form of it.
    """
    held = {(one["file"], one["configurations"]): one for one in earlier["spaces"]}
    alike = all(data[name] == earlier[name] for name in ("seeds", "trials"))
    for one in data["spaces"]:
        before = held.get((one["file"], one["configurations"]))
        if before is None or not alike:
            raise SystemExit(f"{one['file']}: not the space that was replayed earlier")
        names = {row["strategy"] for row in one["strategies"]}
        one["strategies"] += [row for row in before["strategies"] if row["strategy"] not in names]
    return {**data, "overall": overall(data["spaces"], data["trials"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("spaces", type=Path, nargs="*", help="default: those that ship")
    parser.add_argument(
        "--strategies", default=",".join([*KNOWING_MAKERS, AFTER_DEFAULTS, "informed", "annealing"])
    )
    parser.add_argument("--least", type=int, default=300, help="configurations of a space")
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--earlier", type=Path, help="result with rows of other strategies")
    parser.add_argument("-o", "--output", type=Path, required=True, help="name without suffix")
    options = parser.parse_args()
    lessons = []
    if not KNOWING_MAKERS.keys().isdisjoint(options.strategies.split(",")):
        lessons = lessons_of(gathered(shipped_spaces()), load_registry(REGISTRY))
    found = compared(options.spaces or shipped_spaces(), lessons, options)
    data = to_json(found, {"seeds": options.seeds, "trials": options.trials, "batch": 0})
    if options.earlier:
        data = completed(data, json.loads(options.earlier.read_text()))
    options.output.with_suffix(".json").write_text(json.dumps(data) + "\n")
    draw(data, options.output.with_suffix(".png"))
    print(table(data))


if __name__ == "__main__":
    main()
