"""Tables of the documents on products with pruned weights: bench_tilewise."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from statistics import geometric_mean
from typing import Any, NamedTuple

from markdown_tables import table, us

Row = Mapping[str, Any]
_CASE = re.compile(r"(?P<type>\S+) (?P<extents>\d+x\d+x\d+) (?:\S+x\S+ )?(?P<pattern>.*)")
"""`int8 4096x4096x4096 tw-128 0.5`; floats name the types of both factors behind the extents."""
_LARGE = 1 << 33
"""Multiply-adds from which a product has a row of its own; the others are layers of networks."""
_OF_PATTERN = ("cusparselt", "cusparse_csr", "blocked_ell")


class Case(NamedTuple):
    """The fastest kernel that skips zeros, and the libraries' times: dense, and of the pattern."""

    row: Row
    dense: float | None
    of_pattern: float | None


def _cases(rows: Iterable[Row]) -> dict[str, Case]:
    by_case: dict[str, list[Row]] = {}
    for row in rows:
        by_case.setdefault(row["case"], []).append(row)
    found = {}
    for name, measured in by_case.items():
        own = [row for row in measured if row["us"] is not None and not _dense_or_peer(row)]
        if own:
            row = min(own, key=lambda row: row["us"])
            peers = {row["peer"]: row["us"] for row in measured if "peer" in row}
            dense = peers.get("cublaslt", peers.get("cublas", row.get("cublaslt_us")))
            sparse = next((peers[name] for name in _OF_PATTERN if peers.get(name)), None)
            found[name] = Case(row, dense, sparse or row.get("cusparselt_us"))
    return found


def _dense_or_peer(row: Row) -> bool:
    """Whether a row is of a kernel that skips no zeros, or of a library's."""
    return "peer" in row or row.get("dense", False)


def _parts(case: str) -> tuple[str, str, str]:
    """Type, extents and pattern with sparsity of a case."""
    match = _CASE.fullmatch(case)
    if match is None:
        raise ValueError(f"{case!r}: no case of bench_tilewise.py")
    return match["type"], match["extents"], match["pattern"]


def _large(case: str) -> bool:
    return math.prod(map(int, _parts(case)[1].split("x"))) >= _LARGE


def products(result: Mapping[str, Any]) -> str:
    """Large products with pruned weights, a row each."""
    turning = [row["turning_us"] for row in result["rows"] if row.get("turning_us")]
    cells = [
        [name, us(case.row["us"]), us(case.dense), us(case.of_pattern), case.row["date"]]
        for name, case in _cases(result["rows"]).items()
        if _large(name)
    ]
    text = (
        f"One {result['device']}. Times of tiles include the transposition of the activations "
        f"({min(turning):.1f} to {max(turning):.1f} us)."
    )
    titles = ["case", "autoq", "cuBLAS, dense", "cuSPARSE, of the pattern", "date"]
    return table(text, titles, cells)


def layers(result: Mapping[str, Any]) -> str:
    """Layers of networks, a row for each type and pattern: rates over the dense library's."""
    gains: dict[tuple[str, str], list[float]] = {}
    dates = set()
    for name, case in _cases(result["rows"]).items():
        if case.dense is not None and not _large(name):
            kind, _, pattern = _parts(name)
            gains.setdefault((kind, pattern), []).append(case.dense / case.row["us"])
            dates.add(case.row["date"])
    cells = [
        [
            kind, pattern, str(len(found)), f"{geometric_mean(found):.2f}",
            f"{min(found):.2f} to {max(found):.2f}", str(sum(gain > 1 for gain in found)),
        ]
        for (kind, pattern), found in sorted(gains.items())
    ]  # fmt: skip
    text = (
        f"One {result['device']}, {min(dates)} to {max(dates)}: how many times as fast as cuBLAS's "
        "dense product."
    )
    titles = ["type", "pattern, sparsity", "layers", "geometric mean", "range", "faster"]
    return table(text, titles, cells)


def networks(result: Mapping[str, Any]) -> str:
    """Whole networks, dense and pruned: times, and how many times as fast as the dense one."""
    dense = {case["case"]: case["autoq_us"] for case in result["cases"]}
    cells = []
    for case in sorted(result["cases"], key=lambda case: str(case["case"])):
        name, _, pruned = case["case"].partition(", ")
        ratio = f"{dense[name] / case['autoq_us']:.2f}" if pruned else "1"
        when = f"{case['date']}, {case['commit'][:8]}"
        cells.append(
            [name, pruned or "dense", f"{case['autoq_us']:.0f}", ratio, str(case["kernels"]), when]
        )
    titles = ["network", "weights", "autoq", "times as fast", "kernels", "date, commit"]
    return table(f"One {result['device']}. Times in us.", titles, cells)


def summary_rows(result: Mapping[str, Any]) -> str:
    """ResNet-50 and BERT, pruned and dense: rows of the README's table of what is sparse."""
    times = {case["case"]: us(case["autoq_us"]) for case in result["cases"]}
    images, tokens = "ResNet-50 N128 224x224 int8", "BERT-base N8 length 384 int8"
    tiles, halves = "tw-64 0.75", "tvw-128 2:4 0.75"
    rows = [
        (
            "ResNet-50, 128 images, three quarters pruned, channels that leave it with them",
            times[f"{images}, {tiles}, joint channels"],
            f"autoq with the paper's tiles {times[f'{images}, {tiles}']}, dense {times[images]}",
        ),
        (
            "BERT-base, 8 texts of 384 tokens, three quarters pruned, heads and channels alone",
            times[f"{tokens}, tw-128 0.75, whole channels alone"],
            f"autoq with half of that in 2:4 {times[f'{tokens}, {halves}, whole channels alone']}, "
            f"the paper's tiles with 2:4 {times[f'{tokens}, {halves}']}, dense {times[tokens]}",
        ),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


SECTIONS = {
    "PRUNED": (products, "tilewise_h200"),
    "PRUNED_LAYERS": (layers, "tilewise_h200"),
    "PRUNED_NETWORKS": (networks, "pruned_networks_h200"),
}
"""The text between the marks of each name, and the result that it is made from."""
