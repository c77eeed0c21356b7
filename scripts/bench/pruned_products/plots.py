"""Draws figures 4, 6 and 9 of arXiv:2402.10876: steps to one kernel, times by sparsity, and masks.

`plots.py times RESULT.json OUT.png` draws what bench_tilewise.py measured, the fastest
configuration of each case. `plots.py steps RESULT.json OUT.png` draws what tiles take in torch,
step by step, and in autoq's kernels. `plots.py masks OUT.png` draws what the patterns keep of one
matrix, and writes the figures of the masks to a JSON of the same name.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from ablation import KINDS as ABLATION
from cases.pruned_cases import TILES, cases

from autoq.pruning.matrices import prune_matrices
from autoq.pruning.pattern import Pattern
from autoq.pruning.ranking import Bounds

_SIZE, _SPARSITY = 256, 0.75
_DTYPES = ("int8", "float16", "float32")
_PATTERNS = (
    Pattern.make("ew"), Pattern.make("vw", 16), Pattern.make("bw", 16), Pattern.make("tw", 32),
    Pattern.make("tew", 32, delta=0.05), Pattern.make("tvw", 32),
)  # fmt: skip


def points(rows: list[dict[str, Any]], dtype: str) -> dict[str, dict[float, float]]:
    """The least microseconds of each pattern and of each library, by sparsity."""
    found: dict[str, dict[float, float]] = {}
    for row in rows:
        kind, extents, *words, sparsity = row["case"].split()
        if kind != dtype or row.get("failure") or not row["us"] or extents != "4096x4096x4096":
            continue
        pattern = " ".join(word for word in words if "x" not in word)
        own = "autoq dense" if row.get("dense") else f"autoq {pattern}"
        times = {row.get("peer") or own: row["us"]}
        if "cublaslt_us" in row:  # of rows from before the libraries had their own
            times["cublaslt"] = row["cublaslt_us"]
        for name, us in times.items():
            series = found.setdefault(name, {})
            series[float(sparsity)] = min(us, series.get(float(sparsity), us))
    return found


def draw_times(result: Mapping[str, Any], path: Path) -> None:
    """A panel for each type that was measured: times by sparsity, dense products as lines."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = {dtype: points(result["rows"], dtype) for dtype in _DTYPES}
    panels = {dtype: found for dtype, found in panels.items() if found}
    size = (16 / 3 * len(panels), 6)
    figure, axes = pyplot.subplots(1, len(panels), figsize=size, squeeze=False)
    for axis, (dtype, found) in zip(axes[0], panels.items(), strict=True):
        axis.set_prop_cycle(color=pyplot.get_cmap("tab20").colors)
        for name, series in found.items():
            places = sorted(series)
            times = [series[place] for place in places]
            if name in ("cublaslt", "cublas", "autoq dense"):
                color = "grey" if name == "autoq dense" else "black"
                label = name if name == "autoq dense" else f"{name}, dense"
                axis.axhline(min(times), color=color, linestyle="--", label=label)
            else:
                style = "o-" if name.startswith("autoq") else "s:"
                axis.plot(places, times, style, label=name)
        axis.set_yscale("log")
        axis.set_xlabel("sparsity")
        axis.set_ylabel("us, lower is better")
        axis.set_title(f"4096 cubed, {dtype}")
        axis.legend(fontsize=7, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    dates = sorted({row["date"] for row in result["rows"]})
    figure.suptitle(f"{result['device']}, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}")
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def steps(rows: list[dict[str, Any]], case: str) -> dict[str, float]:
    """The least microseconds of each of torch's steps, then of each of autoq's kernels."""
    found = dict.fromkeys(ABLATION, math.inf)
    for row in rows:
        name = row.get("peer") or row.get("template")
        if row["case"] == case and row["us"] and not row.get("failure") and name != "cublaslt":
            name = f"dense: {name}" if row.get("dense") else name
            found[name] = min(row["us"], found.get(name, math.inf))
    return {name: us for name, us in found.items() if us < math.inf}


def draw_steps(result: Mapping[str, Any], path: Path) -> None:
    """A bar for each step of tiles of 128 columns, 16-bit floats at a sparsity of 0.75."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    (case,) = (c for c in cases() if c.pattern == TILES and c.sparsity == 0.75
               and c.dense.in_dtype == "float16")  # fmt: skip
    found = steps(result["rows"], case.name)
    figure, axis = pyplot.subplots(figsize=(9, 4), layout="constrained")
    bars = axis.barh(list(found), list(found.values()))
    axis.bar_label(bars, fmt="%.0f")
    axis.invert_yaxis()
    axis.set_xlabel("us, lower is better")
    axis.set_title(f"{case.name}, {result['device']}", fontsize=9)
    figure.savefig(path, dpi=100)


def scores() -> np.ndarray:
    """Magnitudes [k, n] of random weights, some rows and columns of which matter more."""
    rng = np.random.default_rng(0)
    rows, columns = (rng.lognormal(0, 0.5, (_SIZE, 1)) for _ in range(2))
    return np.abs(rng.standard_normal((_SIZE, _SIZE))) * rows * columns.T


def draw_masks(path: Path) -> None:
    """A mask for each pattern, and in a JSON what it keeps of the weights and their magnitude."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(12, 9), layout="constrained")
    magnitudes, kept = scores(), {}
    for axis, pattern in zip(axes.flat, _PATTERNS, strict=True):
        (made,) = prune_matrices([magnitudes], pattern, _SPARSITY, [Bounds()])
        share = float(magnitudes[made.mask].sum() / magnitudes.sum())
        kept[str(pattern)] = {"sparsity": float(1 - made.mask.mean()), "magnitude kept": share}
        axis.imshow(made.mask, cmap="Greys", interpolation="nearest")
        axis.set_title(f"{pattern}: {share:.0%} of the magnitude")
        axis.set_xticks([])
        axis.set_yticks([])
    figure.suptitle(f"What patterns keep of {_SIZE} x {_SIZE} weights at a sparsity of {_SPARSITY}")
    figure.savefig(path, dpi=80)
    path.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    figures = parser.add_subparsers(dest="figure", required=True)
    for name in ("times", "steps"):
        figures.add_parser(name).add_argument("result", type=Path)
    figures.add_parser("masks")
    for figure in figures.choices.values():
        figure.add_argument("output", type=Path)
    options = parser.parse_args()
    if options.figure == "masks":
        draw_masks(options.output)
    else:
        draw = draw_times if options.figure == "times" else draw_steps
        draw(json.loads(options.result.read_text()), options.output)


if __name__ == "__main__":
    main()
