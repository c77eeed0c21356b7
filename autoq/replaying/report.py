"""A comparison of strategies as JSON and as a table over all spaces."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np

from autoq import __version__
from autoq.errors import InputError
from autoq.replaying.comparison import SpaceComparison
from autoq.search.compare import Comparison
from autoq.templates.workload_key import to_dict

# The strategy that others are set beside; where it is not among them, their first.
_BASELINE = "annealing"


def to_json(found: Sequence[SpaceComparison], options: dict[str, Any]) -> dict[str, Any]:
    """The comparison: options, a row for each space and strategy, and the ratios over all spaces.

    Counts of trials are null where most seeds did not get so far. `quartiles` are those of the
    speed so far as a share of the best recorded, after each trial.
    """
    spaces = [_space(one, name) for one, name in zip(found, _names(found), strict=True)]
    return {
        "format": 1,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "autoq": __version__,
        **options,
        "spaces": spaces,
        "overall": overall(spaces, options["trials"]),
    }


def _names(found: Sequence[SpaceComparison]) -> list[str]:
    """Names of the workloads; of those with one name what tells them apart besides."""
    workloads = [one.replayable.recorded.workload for one in found]
    fields = [dict(_flat(to_dict(workload))) for workload in workloads]
    names = [str(workload) for workload in workloads]
    told = []
    for name, own in zip(names, fields, strict=True):
        twins = [other for other, text in zip(fields, names, strict=True) if text == name]
        odd = [key for key in own if len({json.dumps(twin.get(key)) for twin in twins}) > 1]
        shown = sorted({str(own[key]) for key in odd if own[key] is not None})
        told.append(" ".join([name, *shown]))
    return told


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for inner, item in value.items():
            yield from _flat(item, f"{name}.{inner}")
    else:
        yield name, value


def _space(one: SpaceComparison, name: str) -> dict[str, Any]:
    recorded = one.replayable.recorded
    return {
        "file": one.path.name,
        "workload": name,
        "device": recorded.device.name,
        "recorded": recorded.last,
        "configurations": len(one.replayable.measured),
        "left_out": dict(one.replayable.left_out),
        "best_us": round(one.best_seconds * 1e6, 3),
        "share_within": _shares(one),
        "strategies": [_row(row) for row in one.rows],
    }


def _shares(one: SpaceComparison) -> dict[str, float]:
    """The share of recorded configurations that reaches each fraction of the best speed."""
    seconds = np.array([t.seconds or math.inf for t in one.replayable.measured.values()])
    fractions = one.rows[0].fractions if one.rows else ()
    return {
        f"{fraction:.0%}": round(float((seconds <= one.best_seconds / fraction).mean()), 5)
        for fraction in fractions
    }


def _row(row: Comparison) -> dict[str, Any]:
    return {
        "strategy": row.strategy,
        "trials_to": {
            f"{fraction:.0%}": {
                "median": _count(median), "p90": _count(p90), "reached": round(reached, 4)
            }
            for fraction, median, p90, reached in zip(
                row.fractions, row.median, row.p90, row.reached, strict=True
            )
        },
        "final": round(float(np.median(row.curves[:, -1])), 5),
        "quartiles": np.round(row.band(), 4).tolist(),
    }  # fmt: skip


def _count(trials: float) -> int | None:
    return int(trials) if math.isfinite(trials) else None


def overall(spaces: Sequence[Mapping[str, Any]], trials: int) -> list[dict[str, Any]]:
    """For each strategy the geometric means over the spaces of its median trials.

    spaces as in `to_json`, all with the same strategies; a median that was not reached counts as
    all `trials`. `ratio` is to the baseline's median, space by space, with the lowest and highest.
    """
    if not spaces:
        return []
    rows = []
    names = [one["strategy"] for one in spaces[0]["strategies"]]
    for index, first in enumerate(spaces[0]["strategies"]):
        row: dict[str, Any] = {"strategy": first["strategy"]}
        for fraction in first["trials_to"]:
            medians = _medians(spaces, index, fraction, trials)
            base = _medians(spaces, names.index(_baseline(names)), fraction, trials)
            ratios = medians / base
            row[fraction] = {
                "median": round(_mean(medians), 1),
                "ratio": round(_mean(ratios), 3),
                "least": round(float(ratios.min()), 3),
                "most": round(float(ratios.max()), 3),
            }
        rows.append(row)
    return rows


def _baseline(names: Sequence[str]) -> str:
    return _BASELINE if _BASELINE in names else names[0]


def joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Comparisons of the same strategies, seeds and trials on several spaces as one.

    Raises InputError for others.
    """
    first = parts[0]
    alike = [{k: part[k] for k in ("seeds", "trials", "batch")} for part in parts]
    spaces = [space for part in parts for space in part["spaces"]]
    names = [[row["strategy"] for row in space["strategies"]] for space in spaces]
    if any(one != alike[0] for one in alike) or any(one != names[0] for one in names):
        raise InputError("comparisons of other strategies, seeds or trials cannot be joined")
    return {**first, "spaces": spaces, "overall": overall(spaces, first["trials"])}


def _medians(
    spaces: Sequence[Mapping[str, Any]], index: int, fraction: str, trials: int
) -> np.ndarray:
    found = [space["strategies"][index]["trials_to"][fraction]["median"] for space in spaces]
    return np.array([trials if one is None else one for one in found], dtype=np.float64)


def _mean(values: np.ndarray) -> float:
    return float(np.exp(np.log(values).mean()))


def table(data: dict[str, Any]) -> str:
    """A Markdown table: for each space and fraction the median and 90th percentile of trials."""
    fractions = list(data["overall"][0])[1:] if data["overall"] else []
    head = ["space", "strategy", *(f"{name} median (p90)" for name in fractions), "final"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for space in data["spaces"]:
        for row in space["strategies"]:
            cells = [_cell(row["trials_to"][name]) for name in fractions]
            name = f"{space['workload']} ({space['configurations']})"
            lines.append(
                "| " + " | ".join([name, row["strategy"], *cells, f"{row['final']:.1%}"]) + " |"
            )
    base = _baseline([row["strategy"] for row in data["overall"]]) if data["overall"] else ""
    for row in data["overall"]:
        cells = [_overall_cell(row[name], base) for name in fractions]
        lines.append("| " + " | ".join(["all spaces", row["strategy"], *cells, ""]) + " |")
    return "\n".join(lines)


def _cell(entry: dict[str, Any]) -> str:
    median, p90 = ("never" if entry[key] is None else entry[key] for key in ("median", "p90"))
    return f"{median} ({p90})"


def _overall_cell(entry: dict[str, Any], base: str) -> str:
    return (
        f"{entry['median']:g} "
        f"({entry['ratio']:.2f} of {base}'s, {entry['least']:.2f}-{entry['most']:.2f})"
    )
