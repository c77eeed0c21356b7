"""Plots of speeds and of where the time goes, from rows of the tables `speed` and `stages`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from residual import paper
from residual.rows import Row, of_table, when

_COLOURS = {
    "sparse": "#4c78a8", "full": "#54a24b", "float32": "#9aa5b1", "tf32": "#b279a2",
    "cublaslt_compiled": "#ff9da6",
}  # fmt: skip
_KINDS = {
    "quantise": "#f2cf5b", "product": "#4c78a8", "reduce": "#e45756", "correct": "#72b7b2",
}  # fmt: skip


def speeds(pyplot: Any, result: Mapping[str, Any]) -> Any:
    """Rates over the density, as shares of the direct product's, a panel for each size."""
    rows = of_table(result, "speed")
    shown = sorted({row["size"] for row in rows})
    figure, axes = pyplot.subplots(
        1, len(shown), figsize=(3.2 * len(shown) + 1, 4.2), sharey=True, squeeze=False
    )
    for axis, size in zip(axes[0], shown, strict=True):
        own = sorted((row for row in rows if row["size"] == size), key=lambda row: row["density"])
        _ours(axis, own)
        _theirs(axis, own[0]["target"], size)
        axis.axhline(1.0, color="#e45756", linewidth=1.4, label="direct")
        axis.set(title=f"{size} cubed", xlabel="density", xscale="log")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("rate over that of the direct product")
    axes[0][0].set_ylim(bottom=0)
    handles = {}
    for axis in axes[0]:
        handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles, loc="lower center", ncols=len(handles), fontsize=9)
    figure.suptitle(f"{rows[0]['device']} ({when(rows)})", fontsize=10)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    return figure


def _ours(axis: Any, rows: Sequence[Row]) -> None:
    """Lines of autoq's forms and of peers; what was timed at one density is a level line."""
    which = "us_least" if rows[0]["target"] == "cpu" else "us_median"
    for form, colour in _COLOURS.items():
        timed = [row for row in rows if form in row["times"]]
        if not timed:
            continue
        shares = [row["times"]["direct"][which] / row["times"][form][which] for row in timed]
        if len(timed) == 1 < len(rows):
            axis.axhline(shares[0], label=form, color=colour, linewidth=1.2)
        else:
            axis.plot(
                [row["density"] for row in timed], shares, label=form, color=colour, marker="o",
                markersize=4,
            )  # fmt: skip


def _theirs(axis: Any, target: str, size: int) -> None:
    quoted, densities = (
        (paper.CPU_SPEEDS, paper.CPU_DENSITIES)
        if target == "cpu"
        else (paper.GPU_SPEEDS, paper.GPU_DENSITIES)
    )
    if size not in quoted:
        return
    own = quoted[size]
    shares = [rate / own["direct"] for rate in own["sparse"]]
    style = {"linestyle": "--", "linewidth": 1.2}
    axis.plot(densities, shares, label="sparse, paper", color=_COLOURS["sparse"], **style)
    axis.plot(
        densities, [own["full"] / own["direct"]] * len(densities), label="full, paper",
        color=_COLOURS["full"], **style,
    )  # fmt: skip


def stages(pyplot: Any, result: Mapping[str, Any]) -> Any:
    """Shares of time by what stages do, a panel for each form and a bar for each size."""
    rows = of_table(result, "stages")
    forms = list(dict.fromkeys(row["form"] for row in rows))
    figure, axes = pyplot.subplots(
        1, len(forms), figsize=(3.6 * len(forms), 3.8), sharey=True, squeeze=False
    )
    for axis, form in zip(axes[0], forms, strict=True):
        own = sorted((row for row in rows if row["form"] == form), key=lambda row: row["size"])
        below = [0.0] * len(own)
        for kind, colour in _KINDS.items():
            shares = [100 * row["share"][kind] for row in own]
            bars = axis.bar(range(len(own)), shares, bottom=below, label=kind, color=colour)
            texts = [f"{share:.0f}" if share >= 4 else "" for share in shares]
            axis.bar_label(bars, texts, label_type="center", fontsize=8)
            below = [low + share for low, share in zip(below, shares, strict=True)]
        axis.set_xticks(range(len(own)), [str(row["size"]) for row in own])
        axis.set(title=form, xlabel="size")
    axes[0][0].set_ylabel("share of the time, %")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), fontsize=9)
    figure.suptitle(
        f"{rows[0]['device']}, density {rows[0]['density']:g} ({when(rows)})", fontsize=10
    )
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    return figure
