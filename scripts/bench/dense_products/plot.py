"""Draws the mixed-input paper's plot from a result of bench_gemm.py, as a PNG. Needs matplotlib.

    python scripts/bench/dense_products/plot.py scripts/results/gemm_h200.json

It shows the eight mixed products of 3456 x 4096 x 2048 and the two native ones, each as the rate
that a kernel of autoq reaches, beside cuBLASLt over weights that are widened beforehand.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SIZE = "3456x4096x2048"
_ORDER = ("{0} x {0}", "{0} x s8", "s8 x {0}", "{0} x u8", "u8 x {0}")
_LIBRARY = "cublaslt_float"
_WANTED = 0.95
"""The share of its native product that every mixed one is to reach."""


def panels(result: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """For f16 and bf16 their cases, the native product first.

    Raises SystemExit naming a case that the result lacks or whose kernel failed.
    """
    rows = {row["case"]: row for row in result["cases"]}
    found: dict[str, list[Mapping[str, Any]]] = {}
    for floats in ("f16", "bf16"):
        names = [f"{pattern.format(floats)} {SIZE}" for pattern in _ORDER]
        if missing := [name for name in names if not rows.get(name, {}).get("tops")]:
            raise SystemExit(f"the result holds no time of {', '.join(missing)}")
        found[floats] = [rows[name] for name in names]
    return found


def library_tops(row: Mapping[str, Any]) -> float | None:
    """The library's rate in the same run, None where it was not timed."""
    peer = row["peers"].get(_LIBRARY)
    return row["tops"] * row["autoq_us"] / peer if peer else None


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Write the plot, a panel for f16 and one for bf16."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = panels(result)
    figure, axes = pyplot.subplots(1, len(found), figsize=(12, 4.2), sharey=True)
    for axis, (floats, rows) in zip(axes, found.items(), strict=True):
        _draw_panel(axis, rows, floats)
    axes[0].set_ylabel("TFLOPS, higher is better")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), fontsize=9)
    dates = sorted(
        {f"{row['date']}, {row['commit'][:7]}" for rows in found.values() for row in rows}
    )
    figure.suptitle(f"Mixed-input products, {SIZE}, {result['device']} ({'; '.join(dates)})")
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _draw_panel(axis: Any, rows: Sequence[Mapping[str, Any]], floats: str) -> None:
    labels = [row["case"].removesuffix(f" {SIZE}") for row in rows]
    series = {
        "autoq": ([row["tops"] for row in rows], "#4c78a8"),
        "cuBLASLt, widened beforehand": ([library_tops(row) or 0.0 for row in rows], "#9aa5b1"),
    }
    for index, (name, (values, colour)) in enumerate(series.items()):
        places = [place + (index - 0.5) * 0.4 for place in range(len(rows))]
        bars = axis.bar(places, values, 0.4, label=name, color=colour)
        axis.bar_label(
            bars, [f"{value:.0f}" if value else "" for value in values], fontsize=7, padding=2
        )
    wanted = _WANTED * rows[0]["tops"]
    axis.axhline(
        wanted, linewidth=1, linestyle="--", color="#e45756",
        label=f"{_WANTED:.0%} of autoq, both factors of 16 bits",
    )  # fmt: skip
    axis.set_xticks(range(len(rows)), labels, fontsize=9)
    axis.margins(y=0.08)
    axis.set_title(floats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result", type=Path, help="what bench_gemm.py wrote")
    parser.add_argument("--output", type=Path, help="the PNG; beside the result by default")
    options = parser.parse_args()
    try:
        draw(
            json.loads(options.result.read_text()),
            options.output or options.result.with_suffix(".png"),
        )
    except ImportError as error:
        sys.exit(f"no plot: {error}; install matplotlib")


if __name__ == "__main__":
    main()
