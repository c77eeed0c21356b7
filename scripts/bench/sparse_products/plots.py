"""Draws what bench_sparse.py measured, as figures 11, 12 and 14 of Magicube; takes matplotlib."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PEERS = {
    "int8": "cuBLASLt int8, dense", "float16": "cuBLASLt float16, dense",
    "blocked_ell_int8 8": "cuSPARSE int8, blocks of 8",
    "blocked_ell_fastest": "cuSPARSE int8, its fastest blocks",
    "magicube": "Magicube's kernel, bytes", "vector_sparse": "vectorSparse's kernel, float16",
}  # fmt: skip
_STEPS = {
    "as it is": {"ahead": False, "padded": False}, "padded": {"ahead": False, "padded": True},
    "padded, ahead": {"ahead": True, "padded": True},
}  # fmt: skip
"""Knobs of Magicube's way, one after the other."""


def draw_collection(result: Mapping[str, Any], path: Path) -> None:
    """Write a PNG of how many times as long peers take, by sparsity, a panel for each width."""
    figure, axes = _figure(len({row["n"] for row in result["means"]}))
    for axis, n in zip(axes, sorted({row["n"] for row in result["means"]}), strict=True):
        of = [row for row in result["means"] if row["n"] == n]
        for peer, label in _PEERS.items():
            points = [row for row in of if row["peer"] == peer and row["sparsity"] is not None]
            if not points:
                continue
            (line,) = axis.plot(
                [str(row["sparsity"]) for row in points],
                [row["by_fastest"] for row in points], marker="o", label=label,
            )  # fmt: skip
            axis.plot(
                [str(row["sparsity"]) for row in points],
                [row["by_default"] for row in points],
                linestyle=":", color=line.get_color(),
            )  # fmt: skip
        axis.axhline(1, color="black", linewidth=0.6)
        axis.set_yscale("log")
        axis.set_title(f"16 matrices a sparsity, vectors of 8, n = {n}", fontsize=9)
        axis.set_xlabel("sparsity")
    axes[0].set_ylabel("peer's time by autoq's fastest (dotted: untuned)", fontsize=8)
    handles: dict[str, Any] = {}
    for axis in axes:
        handles |= {line.get_label(): line for line in axis.get_lines() if line.get_marker() == "o"}
    figure.legend(handles.values(), handles, fontsize=7, ncol=3, loc="outside lower center")
    _write(figure, result, path)


def draw_layer(result: Mapping[str, Any], path: Path) -> None:
    """Write a PNG of two rows: the ablation (figure 11) and every pair of types (figure 12)."""
    figure, axes = _figure(6, 2)
    names = list(dict.fromkeys(row["case"].rsplit(" ", 1)[0] for row in result["rows"]))
    for place, name in enumerate(names[:6]):
        of = [row for row in result["rows"] if row["case"].rsplit(" ", 1)[0] == name]
        _bars(axes[place], _ablation([row for row in of if row["case"].endswith(" L8-R8")]))
        axes[place].set_title(f"{name} L8-R8", fontsize=8)
        fastest: dict[str, float] = {}
        for row in of:
            pair = row["case"].rsplit(" ", 1)[1]
            if row.get("template") == "spmm_panel" and row["us"]:
                fastest[pair] = min(row["us"], fastest.get(pair, row["us"]))
        for peer in ("int8", "float16"):
            fastest |= {f"dense {peer}": row["us"] for row in of if row.get("peer") == peer}
        _bars(axes[6 + place], fastest)
        axes[6 + place].set_title(f"{name}, pairs of types", fontsize=8)
    _write(figure, result, path)


def _ablation(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Times by what is switched on, Magicube's way first."""
    online = [row for row in rows if row.get("template") == "spmm_online" and row["us"]]
    found = {}
    for label, knobs in _STEPS.items():
        of = [row["us"] for row in online if knobs.items() <= row["config"].items()]
        if of:
            found[f"online, {label}"] = min(of)
    panels = [row for row in rows if row.get("template") == "spmm_panel" and row["us"]]
    if not panels:
        return found
    for label, knobs in (
        ("rows from the L2", {"staged": False}),
        ("panel, one step ahead", {"staged": True, "prefetch": 1}),
        ("panel, copies of rows", {"copies": True}), ("panel, untuned", panels[0]["config"]),
    ):  # fmt: skip
        of = [row["us"] for row in panels if knobs.items() <= row["config"].items()]
        if of:
            found[label] = min(of)
    return found | {"panel, fastest": min(row["us"] for row in panels)}


def _figure(count: int, rows: int = 1) -> tuple[Any, Sequence[Any]]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        rows, count, figsize=(4.2 * count, 4.4 * rows), squeeze=False, layout="constrained"
    )
    return figure, [axis for row in axes for axis in row]


def _bars(axis: Any, times: Mapping[str, float]) -> None:
    axis.barh(list(times), list(times.values()))
    axis.invert_yaxis()
    axis.margins(x=0.15)
    axis.tick_params(labelsize=7)
    axis.set_xlabel("us", fontsize=7)
    for place, us in enumerate(times.values()):
        axis.text(us, place, f" {us:.1f}", fontsize=7, va="center")


def _write(figure: Any, result: Mapping[str, Any], path: Path) -> None:
    figure.suptitle(f"{result['device']}", fontsize=10)
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result", type=Path, help="file of bench_sparse.py --set layer")
    options = parser.parse_args()
    draw_layer(json.loads(options.result.read_text()), options.result.with_suffix(".png"))


if __name__ == "__main__":
    main()
