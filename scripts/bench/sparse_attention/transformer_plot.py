"""Draws what bench_sparse_transformer.py measured, Magicube's figure 17; takes matplotlib."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_CASE = re.compile(
    r"sparse transformer length (\d+) heads (\d+) batch (\d+) ([\d.]+) ([\d]+-[\d]+)"
)
_DENSE = "torch float16, dense"


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Write a PNG of a panel for each length and batch: latency by heads, sparsity and bits."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = _panels(result)
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.2 * len(panels), 4), squeeze=False)
    named = {name for panel in panels.values() for bars in panel.values() for name in bars}
    series = sorted(named, key=lambda name: [-int(bits) for bits in re.findall(r"\d+", name)])
    for axis, ((length, batch), panel) in zip(axes[0], panels.items(), strict=True):
        width = 0.8 / len(series)
        for number, name in enumerate(series):
            places = [i + number * width for i, bars in enumerate(panel.values()) if name in bars]
            heights = [bars[name] / 1e3 for bars in panel.values() if name in bars]
            drawn = axis.bar(places, heights, width, label=name)
            axis.bar_label(drawn, fmt="%.2g", fontsize=6)
        ticks = [i + 0.4 - width / 2 for i in range(len(panel))]
        labels = [f"{heads} heads\n{sparsity}" for heads, sparsity in panel]
        axis.set_xticks(ticks, labels, fontsize=8)
        axis.set_title(f"length {length}, batch {batch}", fontsize=9)
    axes[0][0].set_ylabel("ms, lower is better")
    axes[0][-1].legend(fontsize=7)
    dates = sorted({row["date"] for row in result["cases"]})
    days = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    figure.suptitle(
        f"sparse Transformers of four layers, bits of softmax-q,k,v; {result['device']}, {days}",
        fontsize=10,
    )
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def _panels(
    result: Mapping[str, Any],
) -> dict[tuple[int, int], dict[tuple[int, str], dict[str, float]]]:
    """Microseconds by length and batch, then heads and sparsity, then whose they are."""
    panels: dict[tuple[int, int], dict[tuple[int, str], dict[str, float]]] = {}
    for row in result["cases"]:
        found = _CASE.fullmatch(row["case"])
        if found is None:
            continue
        length, heads, batch = map(int, found.groups()[:3])
        bars = panels.setdefault((length, batch), {}).setdefault((heads, found[4]), {})
        bars[f"autoq, {found[5]} bits"] = row["autoq_us"]
        bars[_DENSE] = min(row["peers"].values())
    return {
        key: dict(sorted(panel.items(), key=lambda item: (-item[0][0], item[0][1])))
        for key, panel in sorted(panels.items())
    }
