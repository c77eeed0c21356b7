"""Draws the latencies of figures 10 and 11 of arXiv:2402.10876: layers of networks, pruned.

`networks_plot.py RESULT.json OUT.png` adds up what bench_tilewise.py measured of a network's
layers, the fastest configuration of each, and draws how many times as fast they are together as
cuBLASLt's dense products of the same type. Takes matplotlib.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from cases.pruned_cases import PrunedCase
from cases.pruned_networks import DTYPES, NETWORKS, Network

DENSE = "cublaslt"


@dataclass(frozen=True)
class Speedup:
    """How many times as fast as dense ones a network's layers are together.

    alone: pruned as they are; chosen: by the dense kernel where that is faster, as compiled.
    """

    alone: float
    chosen: float


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


def speedups(rows: Sequence[Mapping[str, Any]], dtype: str, network: Network) -> dict[str, Speedup]:
    """By pruning; those of which a layer was not measured are left out."""
    times, found = fastest(rows), {}
    for pattern, sparsity in network.prunings:
        cases = {
            PrunedCase(DTYPES[dtype](*product), sparsity, pattern): count
            for product, count in network.products.items()
        }
        known = [
            (count, times.get((case.name, DENSE)), times.get((case.name, "autoq")))
            for case, count in cases.items()
        ]
        measured = [(n, dense, own) for n, dense, own in known if dense and own]
        if len(measured) == len(known):
            dense = sum(n * dense for n, dense, _ in measured)
            alone = sum(n * own for n, _, own in measured)
            chosen = sum(n * min(dense, own) for n, dense, own in measured)
            found[next(iter(cases)).pruning] = Speedup(dense / alone, dense / chosen)
    return found


def draw(result: Mapping[str, Any], path: Path) -> None:
    """A panel for each type, a group of bars for each network."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(DTYPES), 1, figsize=(14, 9), layout="constrained")
    for axis, dtype in zip(axes, DTYPES, strict=True):
        ticks, labels, start = [], [], 0.0
        for name, network in NETWORKS.items():
            found = speedups(result["rows"], dtype, network)
            for at, (pruning, speedup) in enumerate(found.items(), int(start)):
                axis.bar(at, speedup.chosen, color="lightgrey")
                axis.bar(at, speedup.alone, width=0.5, color="tab:green")
                axis.text(at, 0.02, pruning, rotation=90, ha="center", va="bottom", fontsize=7)
            if found:
                ticks.append(start + (len(found) - 1) / 2)
                labels.append(name)
                start += len(found) + 1
        axis.axhline(1.0, color="black", linestyle="--")
        axis.set_xticks(ticks, labels)
        axis.set_ylabel("times as fast as dense products of cuBLASLt")
        axis.set_title(f"{dtype}: autoq's pruned kernels, and grey with dense ones where faster")
    dates = sorted({row["date"] for row in result["rows"]})
    figure.suptitle(f"{result['device']}, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}")
    figure.savefig(path, dpi=100)


def main() -> None:
    result, path = sys.argv[1:]
    draw(json.loads(Path(result).read_text()), Path(path))


if __name__ == "__main__":
    main()
