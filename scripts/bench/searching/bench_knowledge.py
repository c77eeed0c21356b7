"""How far a model of records carries: every recorded space ranked without its shape.

For each workload a model is trained on the recorded spaces of all other shapes, whatever their
batch, dtypes and layouts, once for each seed; a list of the recorded configurations, most of them
in its order (`search/strategies/listed.py`), then says how fast the best of the first 1, 2, 4,
... measurements is, as a share of the best recorded speed. The model's order alone, the default
search with the model as its prior, which begins with the untuned default (`adaptive`), the orders
of the model's boosters and of its perceptrons alone, random order (the median of draws) and the
templates' own estimates stand beside it. So does the first of the defaults and best estimates, some
of what `compile` looks at, beside the untuned default: `predicted` is its time, and that with
`promised` is of what is taken where a choice has to promise as much over the default, which is
taken elsewhere. Spaces whose preferred template no other shape has taught are left out. With
`--folds` a shape is left out together with others. It needs no device.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from autoq.knowledge.evaluation import PROMISES, Groups, leave_one_out
from autoq.knowledge.held_out import COUNTS, LeftOut
from autoq.knowledge.lessons import Lesson
from autoq.knowledge.training import gathered, lessons_of
from autoq.measure.job import REGISTRY, load_registry
from autoq.replaying.loading import shipped_spaces

_REACHES = {8: 0.97, 32: 0.99}
"""Shares of the best speed that so many measurements should reach."""

_SEEDS = 0.9
"""Which part of the seeds should."""


def reached(shares: np.ndarray) -> dict[str, float]:
    """Which part of the seeds is as fast as it should be after so many measurements."""
    return {
        str(count): round(float((shares[:, COUNTS.index(count)] >= share).mean()), 3)
        for count, share in _REACHES.items()
    }


def reaching(rows: list[dict[str, Any]], name: str) -> dict[str, int]:
    """In how many spaces nine tenths of the seeds are, after each number and after both."""
    good = [{count: share >= _SEEDS for count, share in one[name].items()} for one in rows]
    each = {str(count): sum(one[str(count)] for one in good) for count in _REACHES}
    return {**each, "both": sum(all(one.values()) for one in good)}


def row(found: LeftOut) -> dict[str, Any]:
    """A workload's line of the result."""
    lesson = found.lesson
    return {
        "workload": str(lesson.workload),
        "dtype": str(lesson.workload.key_fields().get("in_dtype", "")),
        "layout": str(lesson.workload.key_fields().get("in_layout", "NHWC")),
        "configurations": len(lesson.seconds),
        "best_us": round(float(lesson.seconds.min() * 1e6), 3),
        "median": np.median(found.shares, axis=0).round(4).tolist(),
        "least": found.shares.min(axis=0).round(4).tolist(),
        "seeds_that_reach": reached(found.shares),
        "model_median": np.median(found.model, axis=0).round(4).tolist(),
        "model_seeds_that_reach": reached(found.model),
        "adaptive_median": np.median(found.adaptive, axis=0).round(4).tolist(),
        "adaptive_seeds_that_reach": reached(found.adaptive),
        "boosters_median": np.median(found.boosters, axis=0).round(4).tolist(),
        "boosters_seeds_that_reach": reached(found.boosters),
        "perceptrons_median": np.median(found.perceptrons, axis=0).round(4).tolist(),
        "perceptrons_seeds_that_reach": reached(found.perceptrons),
        "family": found.family,
        "default_over_best": None if found.default is None else round(found.default, 4),
        "predicted_over_best": found.choices[:, 0].round(4).tolist(),
        "promised": [
            None if np.isnan(one) else round(float(np.exp(one)), 4) for one in found.choices[:, 1]
        ],
        "random": found.random.round(4).tolist(),
        "estimated": found.estimated.round(4).tolist(),
    }


def untuned(found: list[LeftOut]) -> dict[str, Any]:
    """Of each family whose defaults were recorded, times over the best: mean and worst.

    worst_over_default: of the times over those of the defaults.
    """
    families: dict[str, list[LeftOut]] = defaultdict(list)
    for one in found:
        if one.default is not None:
            families[one.family].append(one)
            families["all"].append(one)
    return {name: _untuned_row(families[name]) for name in sorted(families)}


def _untuned_row(found: list[LeftOut]) -> dict[str, Any]:
    default = np.array([[one.default] * len(one.choices) for one in found])
    predicted = np.array([one.choices[:, 0] for one in found])
    promised = np.exp([one.choices[:, 1] for one in found])
    ways = {"default": default, "predicted": predicted}
    for least in PROMISES:
        ways[f"promised {least}"] = np.where(promised >= least, predicted, default)
    return {
        "spaces": len(found),
        **{
            way: {
                "mean": round(float(times.mean()), 4), "worst": round(float(times.max()), 4),
                "worst_over_default": round(float((times / default).max()), 4),
            }
            for way, times in ways.items()
        },
    }  # fmt: skip


def result(found: list[LeftOut], seeds: int, folds: int) -> dict[str, Any]:
    """The whole result."""
    rows = [row(one) for one in found]
    medians = np.array([one["median"] for one in rows])
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "measurements": list(COUNTS),
        "seeds": seeds,
        "folds": folds,
        "reaches": {str(count): share for count, share in _REACHES.items()},
        "spaces": len(rows),
        "spaces_that_reach": reaching(rows, "seeds_that_reach"),
        "spaces_that_the_model_alone_reaches": reaching(rows, "model_seeds_that_reach"),
        "spaces_that_a_search_reaches": reaching(rows, "adaptive_seeds_that_reach"),
        "spaces_that_boosters_reach": reaching(rows, "boosters_seeds_that_reach"),
        "spaces_that_perceptrons_reach": reaching(rows, "perceptrons_seeds_that_reach"),
        "median": np.median(medians, axis=0).round(4).tolist(),
        "tenth_percentile": np.quantile(medians, 0.1, axis=0).round(4).tolist(),
        "random_median": np.median([one["random"] for one in rows], axis=0).round(4).tolist(),
        "estimated_median": np.median([one["estimated"] for one in rows], axis=0).round(4).tolist(),
        "untuned": untuned(found),
        "cases": rows,
    }


def without(lesson: Lesson, names: Sequence[str]) -> Lesson:
    """A lesson without the columns whose names begin so."""
    kept = {n: one for n, one in lesson.columns.items() if not n.startswith(tuple(names))}
    return dataclasses.replace(lesson, columns=kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spaces", type=Path, help="folder; default: those that ship")
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--least", type=int, default=0, help="configurations of a ranked space")
    parser.add_argument("--part", default="", help="beginning of the ranked workloads' names")
    parser.add_argument("--folds", type=int, default=0, help="groups of shapes; each by itself")
    parser.add_argument("--models", type=int, default=0, help="of a group; one for each seed")
    parser.add_argument("--without", nargs="*", default=[], help="beginnings of columns' names")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    templates = load_registry(REGISTRY)
    paths = shipped_spaces() if options.spaces is None else sorted(options.spaces.rglob("*.xz"))
    lessons = [without(one, options.without) for one in lessons_of(gathered(paths), templates)]
    found = leave_one_out(
        lessons, templates, options.seeds, notify=lambda text: print(text, flush=True),
        jobs=options.jobs, least=options.least, groups=Groups(options.folds, options.models),
        part=options.part,
    )  # fmt: skip
    data = {
        "without": options.without,
        "part": options.part,
        "models": options.models or options.seeds,
        **result(found, options.seeds, options.folds),
    }
    options.output.write_text(json.dumps(data, indent=1) + "\n")
    print(json.dumps({k: v for k, v in data.items() if k != "cases"}, indent=1))


if __name__ == "__main__":
    main()
