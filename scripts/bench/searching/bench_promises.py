"""What untuned choices of models keep of what they promise over the defaults.

    python scripts/bench/searching/bench_promises.py RESULT... -o promises.json

Reads what `bench_predicted.py measure` wrote, of any number of models, and sums up by promise how
long the choices that were made with a network left out take, beside the default and the record of
the same measurement. Choices that are the default are left out, since they cannot differ. Needs no
device.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

_WAY = "network_left_out"
_EDGES = 1.0, 1.01, 1.02, 1.03, 1.05, 1.1, 1.2, float("inf")
"""Promises from one to the next are summed up together."""

_BEHIND = 1.1
"""A choice, or a default, that takes longer than so many times the record is far behind."""


def kept(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What choices keep, by what they promise; a promise that no choice makes has no row."""
    made = [
        row for row in rows
        if row.get(f"{_WAY}_us") and row["default_us"] and row["record_us"]
        and row[f"{_WAY}_us"] != row["default_us"]
    ]  # fmt: skip
    found = []
    for least, most in pairwise(_EDGES):
        own = [row for row in made if least <= row[f"{_WAY}_promised"] < most]
        if own:
            found.append({"least": least, **_summed(own)})
    return found


def _summed(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    choice, default, record = (
        np.array([row[f"{way}_us"] for row in rows]) for way in (_WAY, "default", "record")
    )
    over = choice / default
    return {
        "choices": len(rows),
        "promised": round(float(np.mean([row[f"{_WAY}_promised"] for row in rows])), 4),
        "over_default": round(float(over.mean()), 4),
        "standard_error": round(float(over.std() / len(rows) ** 0.5), 4),
        "worst_over_default": round(float(over.max()), 4),
        "choices_behind": round(float(np.mean(choice > _BEHIND * record)), 4),
        "defaults_behind": round(float(np.mean(default > _BEHIND * record)), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="+", help="what `measure` wrote")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    files = [json.loads(path.read_text()) for path in options.results]
    result = {
        "device": sorted({one["device"] for one in files}),
        "measured": [f"{one['records']} at {one['commit'][:8]}" for one in files],
        "behind": _BEHIND, "promises": kept(row for one in files for row in one["cases"]),
    }  # fmt: skip
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result["promises"], indent=1))


if __name__ == "__main__":
    main()
