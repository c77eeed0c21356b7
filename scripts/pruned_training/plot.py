"""Draws accuracies over sparsities: `plot.py RESULT.json OUT.png`, of `prune_and_train.py`.

A row for each network: pruned at once on the left, and trained in stages on the right.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TIED = ("joint", "rows", "channels")
"""Ends of the names of patterns in which matrices are pruned with one another: dotted lines."""
WAYS = {"pruned": "pruned at once", "fine-tuned": "pruned in stages, with training"}


def series(found: Mapping[str, Any], way: str) -> dict[str, dict[float, float]]:
    """Accuracies of each pattern by sparsity."""
    lines: dict[str, dict[float, float]] = {}
    for name, accuracies in found.items():
        if name != "dense":
            pattern, sparsity = name.split()
            lines.setdefault(pattern, {})[float(sparsity)] = accuracies[way]
    return lines


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Write the plot."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        len(result), len(WAYS), figsize=(12.5, 4 * len(result)), squeeze=False, sharey="row",
        layout="constrained",
    )  # fmt: skip
    for row, (network, found) in zip(axes, result.items(), strict=True):
        for axis, (way, title) in zip(row, WAYS.items(), strict=True):
            axis.set_prop_cycle(color=pyplot.get_cmap("tab20").colors)
            axis.axhline(found["dense"], color="black", linestyle="--", label="dense")
            for pattern, points in series(found, way).items():
                tied = pattern.endswith(TIED)
                axis.plot(
                    list(points), list(points.values()), "s:" if tied else "o-", label=pattern
                )
            axis.set_title(f"{network}, {title}")
            axis.set_xlabel("sparsity")
            axis.set_ylabel("accuracy")
        row[-1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.02, 0.5))
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    draw(json.loads(options.result.read_text()), options.output)
