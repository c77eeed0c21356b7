"""Writes the README's section on convolutions from a result of bench_conv.py.

The section lies between the two CONVOLUTIONS marks; nothing else of the README is touched.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

OPEN, CLOSE = "<!-- CONVOLUTIONS: written by scripts/conv_readme.py -->", "<!-- /CONVOLUTIONS -->"

PEER_TITLES = {
    "cudnn_int8": "cuDNN int8",
    "cublaslt_int8": "cublasLt int8",
    "cudnn_fp16": "cuDNN fp16",
    "metaschedule": "MetaSchedule",
}

SHOWN = (
    "3x3 56x56x64",
    "3x3 28x28x128",
    "3x3 14x14x256",
    "3x3 7x7x512",
    "1x1 56x56x64->256",
    "1x1 14x14x1024->256",
    "stem 7x7 s2 224x224x3->64",
)
"""Cases of the table, at each batch size of `BATCHES`; the text counts all others."""

BATCHES = (8, 128)


def section(result: Mapping[str, Any], link: str) -> str:
    """The section in Markdown; link is the path of the result as the README names it."""
    rows = {row["case"]: row for row in result["cases"]}
    names = [f"N{batch} {case}" for batch in BATCHES for case in SHOWN]
    shown = [rows[name] for name in names if name in rows]
    peers = [name for name in PEER_TITLES if any(name in row["peers"] for row in rows.values())]
    return "\n".join([_introduction(result, link), "", *_table(shown, peers), "", _summary(result)])


def _introduction(result: Mapping[str, Any], link: str) -> str:
    libraries = "; ".join(
        f"{PEER_TITLES.get(name, name)}: {version}" for name, version in result["peers"].items()
    )
    return (
        f"Convolutions of int8 ResNet-50 on one {result['device']} (driver {result['driver']}),\n"
        f"{result['date']}, beside the libraries on that machine in one run of\n"
        f"`scripts/bench_conv.py` ([{Path(link).name}]({link}); {libraries}).\n"
        "Medians over replays of a CUDA graph of back-to-back launches, in microseconds; the\n"
        "overlapped ones are autoq's where each launch may start while the one before it drains,\n"
        "as in a compiled model (programmatic dependent launch); no comparison counts them.\n"
        "Buffers are reused, so they are hot in the L2 cache where they fit. First every output\n"
        "element was compared: autoq's exactly, those of int8 peers to one quantisation step.\n"
        "Each peer is at its fastest plan or algorithm and scales by channel or by one number,\n"
        "whichever is faster. For the stem it may choose between 7x7 over 3 or 4 channels and the\n"
        "4x4 form over 16 that autoq uses."
    )


def _table(rows: Sequence[Mapping[str, Any]], peers: Sequence[str]) -> list[str]:
    titles = ["case", "autoq", "overlapped", *(PEER_TITLES[name] for name in peers),
              "best peer / autoq", "share of roofline"]  # fmt: skip
    lines = ["| " + " | ".join(titles) + " |", "|" + " --- |" * len(titles)]
    for row in rows:
        speedup = "-" if row["speedup"] is None else f"{row['speedup']:.2f}"
        part = "-" if row["roofline_share"] is None else f"{row['roofline_share']:.0%}"
        own = [_us(row["autoq_us"]), _us(row["autoq_overlapped_us"])]
        times = [*own, *(_us(row["peers"].get(name)) for name in peers)]
        untuned = " (untuned)" if row["source"] == "untuned default" else ""
        lines.append("| " + " | ".join([row["case"] + untuned, *times, speedup, part]) + " |")
    return lines


def _summary(result: Mapping[str, Any]) -> str:
    compared = [row for row in result["cases"] if row["speedup"] is not None]
    slower = sorted((row for row in compared if row["speedup"] < 1), key=lambda r: r["speedup"])
    text = (
        f"Of the {len(compared)} convolutions of that run, autoq was at least as fast as every "
        f"peer in {len(compared) - len(slower)}."
    )
    if slower:
        named = ", ".join(
            f"{row['case']} ({_us(row['autoq_us'])} us, {PEER_TITLES[row['best_peer']]} "
            f"{_us(row['peers'][row['best_peer']])})"
            for row in slower
        )
        text += f" The others: {named}."
    return text


def _us(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def replaced(readme: str, text: str) -> str:
    """The README with `text` between its marks; raises ValueError when it has none."""
    before, opening, rest = readme.partition(OPEN)
    _, closing, after = rest.partition(CLOSE)
    if not opening or not closing:
        raise ValueError(f"the README lacks the marks {OPEN} and {CLOSE}")
    return f"{before}{OPEN}\n{text}\n{CLOSE}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path, nargs="?", help="what bench_conv.py wrote",
                        default=Path("scripts/results/conv_h200.json"))  # fmt: skip
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    options = parser.parse_args()
    result = json.loads(options.result.read_text())
    link = os.path.relpath(options.result, options.readme.parent)
    options.readme.write_text(replaced(options.readme.read_text(), section(result, link)))


if __name__ == "__main__":
    main()
