"""Draws what bench_attention.py measured: figure 13, attention beside torch; takes matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_READ = {False: "as it is needed", True: "ahead"}


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Write a PNG of two panels: sampled products by how a is read, and attention by kernels."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(15, 5))
    rows = [row for row in result["rows"] if row["us"]]
    sampled = [row for row in rows if row["kernel"] == "sddmm_gathered"]
    _bars(left, {
        label: {row["workload"]: row["us"] for row in sampled if row["config"]["ahead"] is ahead}
        for ahead, label in _READ.items()
    })  # fmt: skip
    left.set_title("SDDMM 4096 x 4096 x k: rows of a are read", fontsize=9)
    attention = [row for row in rows if row["workload"].startswith("sparse attention")]
    kernels = dict.fromkeys(row["kernel"] for row in attention)
    _bars(right, {
        kernel: _fastest([row for row in attention if row["kernel"] == kernel])
        for kernel in kernels
    })  # fmt: skip
    right.set_title(
        "attention, batch x heads, queries x keys x depth, quantisation included", fontsize=9
    )
    left.set_xlabel("us, lower is better")
    right.set_xlabel("us, lower is better")
    dates = sorted({row["date"] for row in rows})
    figure.suptitle(f"{result['device']}, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def _fastest(rows: list[Mapping[str, Any]]) -> dict[str, float]:
    """The least time of each workload."""
    found: dict[str, float] = {}
    for row in rows:
        found[row["workload"]] = min(row["us"], found.get(row["workload"], row["us"]))
    return found


def _bars(axis: Any, series: Mapping[str, Mapping[str, float]]) -> None:
    """Horizontal bars, a group for each workload and one in it for each of the series."""
    names = list(dict.fromkeys(name for of in series.values() for name in of))
    height = 0.8 / max(1, len(series))
    for number, (label, of) in enumerate(series.items()):
        places = [names.index(name) + number * height for name in of]
        axis.barh(places, list(of.values()), height, label=label)
    ticks = [place + 0.4 - height / 2 for place in range(len(names))]
    axis.set_yticks(ticks, list(map(_shortened, names)), fontsize=7)
    axis.invert_yaxis()
    axis.set_xlim(right=1.6 * max(max(of.values()) for of in series.values() if of))
    axis.legend(fontsize=7, loc="upper right")


def _shortened(name: str) -> str:
    """A workload's name without what all of a panel have in common."""
    for common in ("sddmm 4096x4096x", "sparse attention ", " sparse bcrs", " sparse float16"):
        name = name.replace(common, "")
    return name
