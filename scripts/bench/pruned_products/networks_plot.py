"""Draws the latencies of figures 10 and 11 of arXiv:2402.10876: layers of networks, pruned.

`networks_plot.py RESULT.json OUT.png` adds up what bench_tilewise.py measured of a network's
layers, the fastest configuration of each, and draws how many times as fast they are together as
cuBLASLt's dense products of the same type. Beside them are autoq's dense products, cuBLASLt's of
bytes, and what libraries take for the same pattern. Takes matplotlib.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from cases.pruned_cases import PrunedCase
from cases.pruned_networks import DTYPES, NETWORKS, Network

from autoq.pruning.pattern import Pattern

DENSE = "cublaslt"
LIBRARIES = {"vw": ("cusparselt", "cuSPARSELt"), "bw": ("blocked_ell", "cuSPARSE Blocked-ELL")}
"""By kind of a pattern, whose product there is besides: a row's peer, and its name."""


@dataclass(frozen=True)
class Speedup:
    """How many times as fast as cuBLASLt's dense products a network's layers are together.

    alone: pruned as they are, 0 without such kernels; chosen: by autoq's dense kernel where that is
    faster, as compiled, 0 where one of these was not measured; library: what `LIBRARIES` has of the
    pattern, 0 where a layer is not among it.
    """

    alone: float
    chosen: float
    library: float = 0.0


def fastest(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """The least microseconds by case and by who computes it: a library, or "autoq".

    What autoq's dense kernels take is "autoq dense".
    """
    found: dict[tuple[str, str], float] = {}
    for row in rows:
        if row.get("us") and not row.get("failure"):
            own = "autoq dense" if row.get("dense") else "autoq"
            key = row["case"], row.get("peer") or own
            found[key] = min(row["us"], found.get(key, row["us"]))
    return found


def _cases(dtype: str, network: Network, pattern: Pattern, sparsity: float) -> dict[str, int]:
    """The names of a network's products, and how often each."""
    return {
        PrunedCase(DTYPES[dtype](*product), sparsity, pattern).name: count
        for product, count in network.products.items()
    }


def speedups(rows: Sequence[Mapping[str, Any]], dtype: str, network: Network) -> dict[str, Speedup]:
    """By pruning; those of which a layer was not measured are left out."""
    times, found = fastest(rows), {}
    for pattern, sparsity in network.prunings:
        cases = _cases(dtype, network, pattern, sparsity)
        dense, own, kernel, library = (
            {name: times.get((name, who), 0.0) for name in cases}
            for who in (DENSE, "autoq", "autoq dense", LIBRARIES.get(pattern.kind, ("",))[0])
        )
        if not any(own.values()):
            own = dict.fromkeys(cases, math.inf)
        if not all(kernel.values()):
            kernel = dict.fromkeys(cases, math.inf)
        if not all((*dense.values(), *own.values(), *kernel.values())):
            continue
        totals = [
            sum(count * one[name] for name, count in cases.items())
            for one in (dense, own, {name: min(own[name], kernel[name]) for name in cases}, library)
        ]
        of_library = totals[0] / totals[3] if all(library.values()) else 0.0
        name = f"{'2:4' if pattern.kind == 'vw' else pattern} {sparsity}"
        chosen = 0.0 if math.inf in kernel.values() else totals[0] / totals[2]
        found[name] = Speedup(totals[0] / totals[1], chosen, of_library)
    return found


def dense_speedups(
    rows: Sequence[Mapping[str, Any]], dtype: str, network: Network
) -> dict[str, float]:
    """Of all weights: autoq's kernels, and beside floats cuBLASLt's products of bytes."""
    times, found = fastest(rows), {}
    asked = {"autoq, all weights": (dtype, "autoq dense")}
    if dtype != "int8":
        asked["cuBLASLt int8, all weights"] = "int8", DENSE
    for label, (of, who) in asked.items():
        pattern, sparsity = network.prunings[0]
        names = zip(
            _cases(dtype, network, pattern, sparsity).items(),
            _cases(of, network, pattern, sparsity), strict=True,
        )  # fmt: skip
        pairs = [
            (count, times.get((name, DENSE), 0.0), times.get((other, who), 0.0))
            for (name, count), other in names
        ]
        if all(dense and own for _, dense, own in pairs):
            found[label] = sum(c * d for c, d, _ in pairs) / sum(c * o for c, _, o in pairs)
    return found


def draw(result: Mapping[str, Any], path: Path) -> None:
    """A panel for each type, a group of bars for each network."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(DTYPES), 1, figsize=(16, 11), layout="constrained")
    for axis, dtype in zip(axes, DTYPES, strict=True):
        _panel(axis, result["rows"], dtype)
    dates = sorted({row["date"] for row in result["rows"]})
    figure.suptitle(f"{result['device']}, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}")
    figure.savefig(path, dpi=90)


def _panel(axis: Any, rows: Sequence[Mapping[str, Any]], dtype: str) -> None:
    """The networks of a type."""
    at, ticks, labels = 0, [], []

    def bar(height: float, name: str, color: str, **more: Any) -> None:
        axis.bar(at, height, color=color, **more)
        axis.text(at, 0.02, name, rotation=90, ha="center", va="bottom", fontsize=8)

    for title, network in NETWORKS.items():
        start = at
        for name, speedup in speedups(rows, dtype, network).items():
            axis.bar(at, speedup.chosen, color="lightgrey")
            bar(speedup.alone, name, "tab:green", width=0.5)
            if speedup.library:
                axis.plot(at, speedup.library, "D", color="tab:red")
            at += 1
        for name, height in dense_speedups(rows, dtype, network).items():
            bar(height, name, "tab:blue")
            at += 1
        if at > start:
            ticks.append((start + at - 1) / 2)
            labels.append(title)
            at += 1
    axis.axhline(1.0, color="black", linestyle="--")
    axis.set_xticks(ticks, labels)
    axis.set_ylabel("times as fast as cuBLASLt's dense products")
    libraries = " and ".join(name for _, name in LIBRARIES.values())
    axis.set_title(
        f"{dtype}: pruned kernels (green), with dense ones where these are faster (grey), "
        f"{libraries} (red), all weights (blue)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    draw(json.loads(options.result.read_text()), options.output)


if __name__ == "__main__":
    main()
