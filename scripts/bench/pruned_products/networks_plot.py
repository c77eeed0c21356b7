"""Draws the latencies of figures 10 and 11 of arXiv:2402.10876: layers of networks, pruned.

`networks_plot.py RESULT.json OUT.png` adds up what bench_tilewise.py measured of a network's
layers, the fastest configuration of each, and draws how many times as fast they are together as
cuBLASLt's dense products of the same type. Takes matplotlib.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from cases.pruned_cases import PrunedCase
from cases.pruned_networks import NETWORKS, patterns

from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm

DENSE = "cublaslt"
_KINDS = {"int8": Gemm, "float16": lambda m, n, k: FloatGemm(m, n, k, weight_dtype="float16")}


def fastest(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """The least microseconds by case and by who computes it: a library, or "autoq"."""
    found: dict[tuple[str, str], float] = {}
    for row in rows:
        if row.get("us") and not row.get("failure"):
            key = row["case"], row.get("peer") or "autoq"
            found[key] = min(row["us"], found.get(key, row["us"]))
    return found


def speedups(rows: Sequence[Mapping[str, Any]], dtype: str, network: str) -> dict[str, float]:
    """Of each pattern how many times as fast a network's layers are as dense ones, together.

    "chosen" behind a pattern takes the dense product where that is faster, as `compile` does.
    Patterns of which a layer was not measured are left out.
    """
    times, made, found = fastest(rows), _KINDS[dtype], {}
    for pattern, sparsity in patterns(network):
        layers = [
            (PrunedCase(made(*extents), sparsity, pattern).name, count)
            for extents, count in NETWORKS[network].items()
        ]
        if any((name, who) not in times for name, _ in layers for who in (DENSE, "autoq")):
            continue
        dense, pruned, chosen = (
            sum(count * pick(times[name, DENSE], times[name, "autoq"]) for name, count in layers)
            for pick in (lambda dense, _: dense, lambda _, pruned: pruned, min)
        )
        text = layers[0][0].split(maxsplit=2 + (dtype == "float16"))[-1]
        found[text] = dense / pruned
        found[f"{text}, chosen"] = dense / chosen
    return found


def draw(result: Mapping[str, Any], path: Path) -> None:
    """A panel for each type, a group of bars for each network."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(_KINDS), 1, figsize=(14, 9), layout="constrained")
    for axis, dtype in zip(axes, _KINDS, strict=True):
        by_network = {name: speedups(result["rows"], dtype, name) for name in NETWORKS}
        ticks, labels, start = [], [], 0.0
        for name, found in by_network.items():
            bars = [text for text in found if not text.endswith(", chosen")]
            for place, text in enumerate(bars):
                at = start + place
                axis.bar(at, found[f"{text}, chosen"], color="lightgrey")
                axis.bar(at, found[text], width=0.5, color="tab:green")
                axis.text(at, 0.02, text, rotation=90, ha="center", va="bottom", fontsize=7)
            if bars:
                ticks.append(start + (len(bars) - 1) / 2)
                labels.append(name)
                start += len(bars) + 1
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
