"""Curves of a comparison with quartile bands, a panel for each recorded space."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from autoq.errors import InputError

_COLUMNS = 4
# Lines have the colours of matplotlib's cycle in turn, each round of them in another style.
_COLOURS, _STYLES = 10, ("-", "--", ":")


def draw(data: dict[str, Any], path: Path) -> None:
    """Draw what `report.to_json` gives; raises InputError without matplotlib."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise InputError(
            f"{path}: drawing needs matplotlib ({error}); pip install matplotlib"
        ) from error
    spaces = data["spaces"]
    columns = min(_COLUMNS, len(spaces))
    rows = math.ceil(len(spaces) / columns)
    figure, axes = pyplot.subplots(
        rows,
        columns,
        figsize=(4.2 * columns, 3.4 * rows),
        squeeze=False,
        sharex=True,
        layout="constrained",
    )
    for panel, space in zip(axes.flat, spaces, strict=False):
        for i, row in enumerate(space["strategies"]):
            low, middle, high = row["quartiles"]
            trials = range(1, len(middle) + 1)
            color, style = f"C{i % _COLOURS}", _STYLES[i // _COLOURS % len(_STYLES)]
            panel.plot(trials, middle, style, color=color, label=row["strategy"], linewidth=1.2)
            panel.fill_between(trials, low, high, color=color, alpha=0.08, linewidth=0)
        panel.set_title(f"{space['workload']}, {space['configurations']} recorded", fontsize=9)
        panel.set_ylim(0.6, 1.005)
        panel.set_xscale("log", base=2)
        panel.grid(alpha=0.3)
    for panel in list(axes.flat)[len(spaces) :]:
        panel.axis("off")
    names = axes[0][0].get_legend_handles_labels()
    figure.legend(*names, fontsize=8, loc="outside upper center", ncols=2 * columns)
    figure.supxlabel("trials")
    figure.supylabel("share of the best recorded speed", fontsize=9)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
