"""What the ablation says: speed-ups of its bars, and its table, from measured times."""

from __future__ import annotations

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


def speedups(times: Mapping[str, float | None], names: Sequence[str]) -> dict[str, float | None]:
    """Speed-up of each bar over the baseline; None where either has no right kernel."""
    base = times.get(BASELINE.name)
    return {
        name: round(base / seconds, 3) if base and (seconds := times.get(name)) else None
        for name in names
    }


def case_row(
    name: str, bars: Mapping[str, Mapping[str, Any]], table: Mapping[str, Any]
) -> dict[str, Any]:
    """The results of one convolution, as they are written.

    bars: `us`, `config` and `trials` of each variant by name; table: the further columns of the
    paper's table 1.
    """
    times = {variant: bar["us"] for variant, bar in bars.items()}
    return {
        "case": name,
        "accumulated": speedups(times, [variant.name for variant in ACCUMULATED]),
        "marginal": speedups(times, [variant.name for variant in MARGINAL]),
        "table": {**table, "searched_us": times.get(SEARCHED.name)},
        "bars": dict(bars),
    }


def table_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The paper's table 1, a line for each convolution; "-" for what was not measured."""
    columns = ("metaschedule_us", "exhaustive_us", "searched_us")
    lines = [f"{'case':24}" + "".join(f"{column:>18}" for column in columns) + f"{'speed-up':>10}"]
    for row in rows:
        values = [row["table"].get(column) for column in columns]
        text = "".join(f"{'-' if value is None else f'{value:.2f}':>18}" for value in values)
        base, searched = values[0], values[-1]
        gain = f"{base / searched:.2f}x" if base and searched else "-"
        lines.append(f"{row['case']:24}{text}{gain:>10}")
    return "\n".join(lines)


def bars_text(rows: Sequence[Mapping[str, Any]], figure: str) -> str:
    """The bars of a figure ("accumulated" or "marginal"), a line for each convolution."""
    names = list(rows[0][figure])
    lines = [f"{figure:24}" + "".join(f"{LABELS[name]:>26}" for name in names)]
    for row in rows:
        values = [row[figure][name] for name in names]
        text = "".join(f"{'-' if value is None else f'{value:.2f}x':>26}" for value in values)
        lines.append(f"{row['case']:24}{text}")
    return "\n".join(lines)
