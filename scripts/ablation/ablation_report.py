"""What the ablation says: speed-ups of its bars with their spread, and its table.

A bar is searched with several seeds. Its speed-up is that of the median time over the baseline's
median time; `low` and `high` are those of its slowest and its fastest search.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ablation_variants import ACCUMULATED, BASELINE, MARGINAL, SEARCHED

LABELS = {
    "baseline": "baseline",
    "duplicates": "duplicate-aware load",
    "duplicates_packing": "+ register-level packing",
    "duplicates_packing_layout": "+ NHWCnc layout",
    "packing": "register-level packing",
    "layout": "NHWCnc layout",
}
Times = Sequence[float | None]
"""Microseconds of a bar's searches; None for one that found no right kernel."""


def median(times: Times) -> float | None:
    """The median of the searches that found a right kernel; None where none did."""
    right = [us for us in times if us is not None]
    return statistics.median(right) if right else None


def speedup(times: Times, base_us: float | None) -> dict[str, float] | None:
    """`median`, `low` and `high` speed-up over a time; None where either is missing."""
    right = [us for us in times if us is not None]
    if not right or not base_us:
        return None
    us = {"median": statistics.median(right), "low": max(right), "high": min(right)}
    return {name: round(base_us / value, 3) for name, value in us.items()}


def case_row(
    name: str, bars: Mapping[str, Mapping[str, Any]], table: Mapping[str, Any]
) -> dict[str, Any]:
    """The results of one convolution, as they are written.

    bars: `us` and `searches` of each variant by name, an entry for each seed; table: the further
    columns of the paper's table 1.
    """
    times = {variant: bar["us"] for variant, bar in bars.items()}
    base_us = median(times[BASELINE.name])

    def figure(variants: Sequence[Any]) -> dict[str, Any]:
        return {v.name: speedup(times.get(v.name, ()), base_us) for v in variants}

    searched = times.get(SEARCHED.name, ())
    return {
        "case": name,
        "accumulated": figure(ACCUMULATED),
        "marginal": figure(MARGINAL),
        "table": {**table, "searched_us": median(searched), "searched_all_us": list(searched)},
        "bars": dict(bars),
    }


def table_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The paper's table 1, a line for each convolution; "-" for what was not measured."""
    columns = ("metaschedule_us", "exhaustive_us", "searched_us")
    titles = (*columns, "slowest seed", "fastest seed")
    lines = [f"{'case':28}" + "".join(f"{title:>18}" for title in titles)]
    for row in rows:
        right = [us for us in row["table"]["searched_all_us"] if us is not None]
        values = [row["table"].get(column) for column in columns]
        values += [max(right, default=None), min(right, default=None)]
        text = "".join(f"{'-' if value is None else f'{value:.2f}':>18}" for value in values)
        lines.append(f"{row['case']:28}{text}")
    return "\n".join(lines)


def bars_text(rows: Sequence[Mapping[str, Any]], figure: str) -> str:
    """The bars of a figure ("accumulated" or "marginal"), a line for each convolution."""
    names = list(rows[0][figure])
    lines = [f"{figure:28}" + "".join(f"{LABELS[name]:>26}" for name in names)]
    for row in rows:
        text = "".join(f"{_range(row[figure][name]):>26}" for name in names)
        lines.append(f"{row['case']:28}{text}")
    return "\n".join(lines)


def _range(found: Mapping[str, float] | None) -> str:
    """A speed-up with its spread, such as "1.21x (1.18 to 1.24)"."""
    if found is None:
        return "-"
    return f"{found['median']:.2f}x ({found['low']:.2f} to {found['high']:.2f})"
