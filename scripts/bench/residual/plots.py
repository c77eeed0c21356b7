"""Draws figures of the residual paper from a result of bench_residual.py. Needs matplotlib.

    python scripts/bench/residual/plots.py scripts/results/residual_cpu.json

Each figure is a PNG beside the result, named after it: `_thresholds` and `_sizes` are the two
halves of figure 6, `_densities` is figure 8, `_speeds` shows tables 3 or 4, and `_stages` is
figure 7.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from residual import speed_plots
from residual.accuracy import BITS, SIZE
from residual.distributions import DISTRIBUTIONS
from residual.rows import Row, of_table, when

_COLOURS = {
    "direct, one scale": "#b0b7bf", "direct": "#e45756", "sparse": "#4c78a8",
    "sparse, threshold 1": "#4c78a8", "sparse, threshold 0.5": "#9ecae9",
    "full, one scale": "#b9a7d0", "full": "#54a24b",
}  # fmt: skip
_MARKERS = dict(zip(DISTRIBUTIONS, "osD^v", strict=True))


def thresholds(pyplot: Any, result: Mapping[str, Any]) -> Any:
    """Errors over the threshold, a panel for each distribution and number of bits."""

    def draw(axis: Any, rows: Sequence[Row]) -> None:
        row = next((row for row in rows if row["size"] == SIZE), None)
        if row is None:
            raise SystemExit(f"the result holds no errors at size {SIZE}")
        points = [point for point in row["sparse"] if point["threshold"] > 0]
        whole = row["one_scale"]
        for label, value in (
            ("direct, one scale", whole["direct"]), ("direct", row["direct"]),
            ("full, one scale", whole["full"]), ("full", row["full"]),
        ):  # fmt: skip
            axis.axhline(value, label=label, **_line(label))
        axis.plot(
            [point["threshold"] for point in points], [point["error"] for point in points],
            label="sparse", color=_COLOURS["sparse"], marker="o", markersize=3,
        )  # fmt: skip

    return _grid(pyplot, of_table(result, "accuracy"), draw, "threshold",
                 f"Relative error of a product of {SIZE} x {SIZE} matrices")  # fmt: skip


def sizes(pyplot: Any, result: Mapping[str, Any]) -> Any:
    """Errors over the size, a panel for each distribution and number of bits."""

    def draw(axis: Any, rows: Sequence[Row]) -> None:
        ordered = sorted(rows, key=lambda row: row["size"])
        series: dict[str, Callable[[Row], float]] = {
            "direct, one scale": lambda row: row["one_scale"]["direct"],
            "direct": lambda row: row["direct"],
            "sparse, threshold 1": lambda row: _error_at(row, 1.0),
            "sparse, threshold 0.5": lambda row: _error_at(row, 0.5),
            "full, one scale": lambda row: row["one_scale"]["full"],
            "full": lambda row: row["full"],
        }
        for label, value in series.items():
            axis.plot(
                [row["size"] for row in ordered], [value(row) for row in ordered],
                label=label, marker="o", markersize=3, **_line(label),
            )  # fmt: skip
        axis.set_xscale("log", base=2)

    return _grid(pyplot, of_table(result, "accuracy"), draw, "size",
                 "Relative error of a product of square matrices")  # fmt: skip


def densities(pyplot: Any, result: Mapping[str, Any]) -> Any:
    """The share of values that are kept over the threshold, a panel for each number of bits."""
    rows = [row for row in of_table(result, "accuracy") if row["size"] == SIZE]
    figure, axes = pyplot.subplots(1, len(BITS), figsize=(10, 4.2), sharey=True)
    for axis, bits in zip(axes, BITS, strict=True):
        for row in rows:
            if row["bits"] == bits:
                axis.plot(
                    [point["threshold"] for point in row["sparse"]],
                    [point["density_a"] for point in row["sparse"]],
                    label=row["distribution"], marker=_MARKERS[row["distribution"]], markersize=4,
                )  # fmt: skip
        axis.axhline(0.3, color="#999999", linewidth=1, linestyle="--")
        axis.set(title=f"{bits} bits", xlabel="threshold")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("share of the left matrix that is kept")
    axes[0].annotate("0.3, the paper's CPU crossover", (1.02, 0.32), fontsize=8)
    axes[1].legend(fontsize=9)
    figure.suptitle(f"Density over the threshold, {SIZE} x {SIZE} ({when(rows)})", fontsize=11)
    figure.tight_layout()
    return figure


FIGURES = {
    "accuracy": {"thresholds": thresholds, "sizes": sizes, "densities": densities},
    "speed": {"speeds": speed_plots.speeds},
    "stages": {"stages": speed_plots.stages},
}
"""The figures that a table of the result gives, by the end of their file's name."""


def _line(label: str) -> dict[str, Any]:
    """Dashes for one scale a matrix, so that a line below another is seen."""
    return {"color": _COLOURS[label], "linestyle": "--" if "one scale" in label else "-"}


def _error_at(row: Row, threshold: float) -> float:
    return next(p["error"] for p in row["sparse"] if p["threshold"] == threshold)


def _grid(
    pyplot: Any, rows: Sequence[Row], draw: Callable[[Any, Sequence[Row]], None], over: str,
    title: str,
) -> Any:  # fmt: skip
    """A panel for each number of bits, downwards, and each distribution."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    shape = (len(BITS), len(DISTRIBUTIONS))
    figure, axes = pyplot.subplots(*shape, figsize=(15, 6.4), sharex=True)
    for line, bits in zip(axes, BITS, strict=True):
        for axis, name in zip(line, DISTRIBUTIONS, strict=True):
            own = [row for row in rows if (row["bits"], row["distribution"]) == (bits, name)]
            draw(axis, own)
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0e}"))
            axis.yaxis.set_minor_formatter("")
            axis.set_title(f"{name}, {bits} bits", fontsize=10)
            axis.tick_params(labelsize=8)
            axis.grid(alpha=0.3)
        line[0].set_ylabel("relative error")
    for axis in axes[-1]:
        axis.set_xlabel(over)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), fontsize=9)
    figure.suptitle(f"{title} ({when(rows)})", fontsize=12)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    return figure


def draw_all(result: Mapping[str, Any], path: Path) -> list[Path]:
    """Write every figure whose table the result has, beside `path`; the files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    written = []
    present = {row["table"] for row in result["rows"]}
    for table, figures in FIGURES.items():
        for name, make in figures.items() if table in present else ():
            figure = make(pyplot, result)
            written.append(path.with_name(f"{path.stem}_{name}.png"))
            figure.savefig(written[-1], dpi=110)
            pyplot.close(figure)
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result", type=Path, help="what bench_residual.py wrote")
    options = parser.parse_args()
    try:
        written = draw_all(json.loads(options.result.read_text()), options.result)
    except ImportError as error:
        sys.exit(f"no plot: {error}; install matplotlib")
    if not written:
        sys.exit(f"{options.result}: holds no table that a figure shows")
    print(*written, sep="\n")


if __name__ == "__main__":
    main()
