"""Draws the bars of the ablation, the paper's figures 15 and 16, as a PNG. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ablation_report import LABELS

_TITLES = {"accumulated": "Accumulated speed-up", "marginal": "Speed-up of each alone"}
_COLOURS = ("#9aa5b1", "#4c78a8", "#f58518", "#54a24b")


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Write both figures side by side; a bar that was not measured stays out."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(13, 4.2), sharey=True)
    for axis, (name, title) in zip(axes, _TITLES.items(), strict=True):
        _draw_bars(axis, result["cases"], name)
        axis.set_title(title)
    axes[0].set_ylabel("speed-up over the baseline")
    figure.suptitle(
        f"int8 convolution with mma.sync, {result['device']}, {result['trials']} trials a bar"
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
        values = [row[figure][name] or 0.0 for row in rows]
        places = [place + (index - (len(names) - 1) / 2) * width for place in range(len(rows))]
        bars = axis.bar(places, values, width, label=LABELS[name], color=colours[index])
        axis.bar_label(bars, [f"{value:.2f}" if value else "" for value in values], fontsize=7)
    axis.axhline(1.0, color="black", linewidth=0.6)
    axis.set_xticks(range(len(rows)), [row["case"] for row in rows], fontsize=8)
    axis.legend(fontsize=8)
