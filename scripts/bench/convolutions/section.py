"""Sections of docs/performance.md on convolutions, from results of bench_conv.py."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from markdown_tables import us

PEER_TITLES = {
    "cudnn_int8": "cuDNN int8",
    "cublaslt_int8": "cublasLt int8",
    "cudnn_fp16": "cuDNN fp16",
    "metaschedule": "MetaSchedule",
}

DENSE = (
    "3x3 56x56x64",
    "3x3 28x28x128",
    "3x3 14x14x256",
    "3x3 7x7x512",
    "1x1 56x56x64->256",
    "1x1 14x14x1024->256",
    "1x1 56x56x64->256 +residual",
    "1x1 14x14x256->1024 +residual",
    "stem 7x7 s2 224x224x3->64",
)
"""Cases of ResNet-50 that the table shows, at each batch size of `BATCHES`; the text counts all."""

GROUPED = (
    "3x3 112x112x32 g32",
    "3x3 56x56x144 g144",
    "3x3 14x14x576 g576",
    "5x5 14x14x672 g672",
    "3x3 56x56x128 g32",
    "3x3 14x14x512 g32",
)
"""Depthwise and grouped cases that the table shows."""

BATCHES = (8, 128)


def section(result: Mapping[str, Any], shown: Sequence[str]) -> str:
    """Conditions, the table of the cases `shown`, and the count of all, in Markdown."""
    rows = {row["case"]: row for row in result["cases"]}
    names = [f"N{batch} {case}" for batch in BATCHES for case in shown]
    wanted = [rows[name] for name in names if name in rows]
    peers = [name for name in PEER_TITLES if any(name in row["peers"] for row in wanted)]
    return "\n".join([*_conditions(result), "", *_table(wanted, peers), "", summary(result)])


def summary(result: Mapping[str, Any]) -> str:
    """How many cases are at least as fast as every peer, and which are not."""
    compared = [row for row in result["cases"] if row["speedup"] is not None]
    slower = sorted((row for row in compared if row["speedup"] < 1), key=lambda r: r["speedup"])
    text = (
        f"Of the {len(compared)} convolutions of that run, autoq was at least as fast as every "
        f"peer in {len(compared) - len(slower)}."
    )
    if slower:
        named = ", ".join(
            f"{row['case']} ({us(row['autoq_us'])} us, {PEER_TITLES[row['best_peer']]} "
            f"{us(row['peers'][row['best_peer']])})"
            for row in slower
        )
        text += f" The others: {named}."
    return text


def _conditions(result: Mapping[str, Any]) -> list[str]:
    libraries = "; ".join(
        f"{PEER_TITLES.get(name, name)}: {version}" for name, version in result["peers"].items()
    )
    text = (
        f"One {result['device']} (driver {result['driver']}), {result['date']}, commit "
        f"{result['commit']}, all peers in the same run ({libraries})."
    )
    return textwrap.wrap(text, 100)


def _table(rows: Sequence[Mapping[str, Any]], peers: Sequence[str]) -> list[str]:
    titles = ["case", "autoq", "overlapped", *(PEER_TITLES[name] for name in peers),
              "best peer / autoq", "share of roofline"]  # fmt: skip
    lines = ["| " + " | ".join(titles) + " |", "|" + " --- |" * len(titles)]
    for row in rows:
        speedup = "-" if row["speedup"] is None else f"{row['speedup']:.2f}"
        part = "-" if row["roofline_share"] is None else f"{row['roofline_share']:.0%}"
        own = [us(row["autoq_us"]), us(row["autoq_overlapped_us"])]
        times = [*own, *(us(row["peers"].get(name)) for name in peers)]
        untuned = " (untuned)" if row["source"] == "untuned default" else ""
        lines.append("| " + " | ".join([row["case"] + untuned, *times, speedup, part]) + " |")
    return lines
