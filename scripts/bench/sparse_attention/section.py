"""Tables of the documents on encoders under sparse masks, sampled products and quantised softmax.

Of bench_sparse_transformer.py, bench_sampled.py and softmax_accuracy.py: figures 17 and 15 and
table V of Magicube.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from markdown_tables import table

_BITS = ("16-8", "8-8", "8-4")
_TYPES = ("int16", "int8", "int4", "float16", "dense int8")


def encoders(result: Mapping[str, Any]) -> str:
    """Whole encoders in each number of bits beside torch's dense one, a row a mask and shape."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in result["cases"]:
        shape, bits = row["case"].removeprefix("sparse transformer ").rsplit(" ", 1)
        found.setdefault(shape, {})[bits] = row
    cells, ratios = [], {}
    for shape, by_bits in found.items():
        dense = min(min(row["peers"].values()) for row in by_bits.values())
        *words, sparsity = shape.split()
        own = [shape_in_words(words), sparsity, f"{dense:,.0f}"]
        for bits in _BITS:
            row = by_bits.get(bits)
            if row is None:
                own.append("-")
                continue
            ratio = min(row["peers"].values()) / row["autoq_us"]
            ratios.setdefault((sparsity, bits), []).append(ratio)
            own.append(f"{row['autoq_us']:,.0f} ({ratio:.2f})")
        cells.append(own)
    means = "; ".join(
        f"at {sparsity} " + ", ".join(
            f"{_mean(ratios[sparsity, bits]):.2f} with {bits} bits"
            for bits in _BITS if (sparsity, bits) in ratios
        )
        for sparsity in sorted({name for name, _ in ratios})
    )  # fmt: skip
    text = (
        f"One {result['device']}, {_days(result['cases'])}; us, and in brackets how many times as "
        f"fast as torch. Geometric means: {means}."
    )
    titles = ["length, heads, batch", "sparsity", "torch float16, dense",
              *(f"autoq, {bits} bits" for bits in _BITS)]  # fmt: skip
    return table(text, titles, cells)


def shape_in_words(words: Sequence[str]) -> str:
    """The numbers of "length 4096 heads 8 batch 2"."""
    return ", ".join(words[1::2])


def collection(result: Mapping[str, Any]) -> str:
    """Sampled products over 96 masks, geometric means by sparsity."""
    by_sparsity: dict[float | None, dict[str, float]] = {}
    for row in result["means"]:
        found = by_sparsity.setdefault(row["sparsity"], {})
        found[row["dtype"]] = row["times_as_fast_as_dense_float16"]
    cells = [
        ["all" if sparsity is None else str(sparsity), *_numbers(found.get(t) for t in _TYPES)]
        for sparsity, found in by_sparsity.items()
    ]
    text = (
        f"One {result['device']}, {_days(result['rows'])}. Times as fast as cuBLASLt's dense "
        f"product in float16, geometric means."
    )
    titles = ["sparsity", *_TYPES[:-1], "cuBLASLt int8, dense"]
    return table(text, titles, cells)


def softmax(result: Mapping[str, Any]) -> str:
    """Accuracies of encoders by sparsity and bits, means over seeds."""
    found: dict[float, dict[str, list[float]]] = {}
    for row in result["rows"]:
        own = found.setdefault(row["sparsity"], {})
        own.setdefault(row["attention"], []).append(100 * row["accuracy"])
    names = ("float16", *_BITS)
    cells = [
        ["dense" if sparsity == 0 else str(sparsity),
         *_cells(own, names, lambda each: f"{statistics.mean(each):.2f}%")]
        for sparsity, own in found.items()
    ]  # fmt: skip
    seeds = len({row["seed"] for row in result["rows"]})
    text = (
        f"One {result['device']}, {result['date']}, commit {result['commit'][:7]}: "
        f"{seeds} encoder{'s' if seeds > 1 else ''} a row, {result['steps']:,} steps of training, "
        f"{result['test']:,} expressions of up to {result['length']} tokens."
    )
    titles = ["sparsity", "torch float16", *(f"autoq, {bits} bits" for bits in _BITS)]
    return table(text, titles, cells)


def _cells(
    found: Mapping[str, list[float]], names: Iterable[str], text: Callable[[list[float]], str]
) -> list[str]:
    return [text(found[name]) if name in found else "-" for name in names]


def _numbers(values: Iterable[float | None]) -> list[str]:
    return ["-" if value is None else f"{value:.2f}" for value in values]


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _days(rows: Sequence[Mapping[str, Any]]) -> str:
    """The first and the last date of rows, or the one they share, and the commits they are of."""
    dates = sorted({row["date"] for row in rows})
    commits = sorted({row["commit"][:7] for row in rows})
    days = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    return f"{days}, commit{'s' if commits[1:] else ''} {', '.join(commits)}"


SECTIONS = {
    "SPARSE_TRANSFORMER": (encoders, "sparse_transformer_h200"),
    "SAMPLED_COLLECTION": (collection, "sampled_h200"),
    "SOFTMAX_ACCURACY": (softmax, "softmax_accuracy_h100"),
}
"""The text between the marks of each name, and the result that it is made from."""
