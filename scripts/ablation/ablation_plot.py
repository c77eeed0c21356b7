"""Draws the bars of the ablation, the paper's figures 15 and 16, as a PNG. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ablation_report import LABELS

_TITLES = {"accumulated": "Accumulated speed-up", "marginal": "Speed-up of each alone"}
_COLOURS = ("#9aa5b1", "#4c78a8", "#f58518", "#54a24b")


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Write both figures, a line of them for each width; a bar that was not measured stays out."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in result["cases"]:
        groups.setdefault(row["case"].rpartition(" ")[2], []).append(row)
    size = (13, 3.9 * len(groups))
    figure, axes = pyplot.subplots(len(groups), 2, figsize=size, sharey="row", squeeze=False)
    for line, (dtype, rows) in zip(axes, groups.items(), strict=True):
        for axis, (name, title) in zip(line, _TITLES.items(), strict=True):
            _draw_bars(axis, rows, name)
            axis.set_title(f"{title}, {dtype}")
        line[0].set_ylabel("speed-up over the baseline")
    figure.suptitle(
        f"Convolution with mma.sync, {result['device']}: {result['trials']} trials a bar, "
        f"median of {result['seeds']} searches, lines from the slowest to the fastest"
    )
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _draw_bars(axis: Any, rows: Sequence[Mapping[str, Any]], figure: str) -> None:
    names = list(rows[0][figure])
    width = 0.8 / len(names)
    colours = _COLOURS[-len(names) :]
    for index, name in enumerate(names):
        found = [row[figure][name] or {"median": 0.0, "low": 0.0, "high": 0.0} for row in rows]
        values = [bar["median"] for bar in found]
        spread = [
            [bar["median"] - bar["low"] for bar in found],
            [bar["high"] - bar["median"] for bar in found],
        ]
        places = [place + (index - (len(names) - 1) / 2) * width for place in range(len(rows))]
        bars = axis.bar(
            places, values, width, yerr=spread, capsize=2, label=LABELS[name],
            color=colours[index], error_kw={"elinewidth": 0.8},
        )  # fmt: skip
        axis.bar_label(
            bars, [f"{value:.2f}" if value else "" for value in values], fontsize=7, padding=2
        )
    axis.axhline(1.0, color="black", linewidth=0.6)
    axis.set_xticks(range(len(rows)), [row["case"].rpartition(" ")[0] for row in rows], fontsize=8)
    axis.margins(y=0.3)  # the legend lies above the bars
    axis.legend(fontsize=8, loc="upper left", ncols=2)
