"""Geometric means over the collection that bench_sparse.py measured, a row for each matrix.

Takes the files of `bench_sparse.py --set collection,one_scale`, of any widths, and writes one JSON
with a row for each matrix and width: the untuned default, the fastest configuration that was tried,
the same of the product with one scale and no bias, which is what peers compute, and the peers,
cuSPARSE's with blocks of each size. `--kept` names an earlier output: its matrices that the files
lack stay, and so do times that they lack of others. `means` says how many times as long each peer
takes as each of these, geometric means over the matrices that have both times, by width and by
sparsity. A PNG of the same name shows them.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))
from cases.sparse_cases import ONE_SCALE
from compared_cases.row_lines import text_of
from peers.vector_kernels import KERNELS

from sparse_products.plots import draw_collection

_BLOCKED = "blocked_ell_int8 "
FASTEST_BLOCKS = "blocked_ell_fastest"
"""cuSPARSE with the block size that is fastest for a matrix."""


def condensed(files: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each matrix and width of the files, with what was timed of it."""
    by_case: dict[str, list[Mapping[str, Any]]] = {}
    for file in files:
        for row in file["rows"]:
            by_case.setdefault(row["case"].removesuffix(ONE_SCALE), []).append(row)
    rows = []
    for case, of_case in by_case.items():
        plain = _own_times([row for row in of_case if not row["case"].endswith(ONE_SCALE)])
        uniform = _own_times([row for row in of_case if row["case"].endswith(ONE_SCALE)])
        peers = {
            one["peer"]: rounded(one["us"]) for one in of_case if one.get("us") and "peer" in one
        }
        row = {"case": case, "n": width_of(case), "sparsity": of_case[0]["sparsity"], **plain}
        row |= {f"one_scale_{name}": value for name, value in uniform.items()}
        rows.append(row | peers)
    return rows


def _own_times(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The untuned choice, which comes first, and the fastest; nothing where none was timed."""
    own = [row for row in rows if "template" in row and row["us"]]
    if not own:
        return {}
    best = min(own, key=lambda row: row["us"])
    return {
        "variation": best["variation"], "date": best["date"], "commit": best["commit"],
        "default_us": rounded(own[0]["us"]), "us": rounded(best["us"]),
        "template": best["template"], "config": best["config"],
        "tried": len({(row["template"], str(row["config"])) for row in own}),
    }  # fmt: skip


def joined(
    kept: Iterable[Mapping[str, Any]], rows: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """New rows with what they lack of kept ones, and kept rows of other matrices, by width."""
    found = {row["case"]: dict(row) for row in kept}
    for row in rows:
        found[row["case"]] = found.get(row["case"], {}) | row
    for row in found.values():
        blocks = [us for name, us in row.items() if name.startswith(_BLOCKED)]
        row |= {FASTEST_BLOCKS: min(blocks)} if blocks else {}
    own = ("case", "n", "sparsity", "variation", "date", "commit")
    ordered = [{name: row[name] for name in (*own, *row) if name in row} for row in found.values()]
    return sorted(ordered, key=lambda row: row["n"])


def width_of(case: str) -> int:
    """Columns of the dense side, from a case's name."""
    return int(case.split(", n ")[1].split(",")[0])


def rounded(us: float) -> float:
    """Four significant digits."""
    return float(f"{us:.4g}")


OWN_TIMES = {
    "by_default": "default_us", "by_fastest": "us",
    "by_one_scale_default": "one_scale_default_us", "by_one_scale": "one_scale_us",
}  # fmt: skip
"""Means by the field of the times that they are of."""


def means(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Geometric means of what peers take, by width and sparsity; a sparsity of None is all."""
    found = []
    for n in sorted({row["n"] for row in rows}):
        for sparsity in (None, *sorted({row["sparsity"] for row in rows})):
            of = [row for row in rows if row["n"] == n and sparsity in (None, row["sparsity"])]
            for peer in sorted({name for row in of for name in row if is_peer(name)}):
                timed = [row for row in of if peer in row]
                by_own = {
                    name: [row[peer] / row[field] for row in timed if field in row]
                    for name, field in OWN_TIMES.items()
                }
                found.append({
                    "n": n, "sparsity": sparsity, "peer": peer, "matrices": len(timed),
                    **{name: mean(ratios) for name, ratios in by_own.items() if ratios},
                })  # fmt: skip
    return found


def is_peer(name: str) -> bool:
    """Whether a field of a row is a peer's time."""
    return name in ("int8", "float16", *KERNELS) or name.startswith("blocked_ell")


def mean(ratios: Sequence[float]) -> float:
    """Geometric mean, to three digits behind the point."""
    return round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", type=Path, nargs="+", help="files of bench_sparse.py")
    parser.add_argument("--kept", type=Path, help="an earlier output")
    parser.add_argument("-o", "--output", type=Path, required=True, help="name without suffix")
    options = parser.parse_args()
    files = [json.loads(path.read_text()) for path in options.parts]
    if len({file["device"] for file in files}) != 1:
        parser.error("the files are of several devices")
    rows, before = condensed(files), {"rows": [], "runs": []}
    if options.kept:
        before = json.loads(options.kept.read_text())
        if before["device"] != files[0]["device"]:
            parser.error(f"{options.kept} is of {before['device']}")
    rows = joined(before["rows"], rows)
    result = {
        "device": files[0]["device"],
        "runs": [*before["runs"],
                 *({name: file[name] for name in ("driver", "date", "commit", "peers")}
                   for file in files)],
        "means": means(rows), "rows": rows,
    }  # fmt: skip
    options.output.with_suffix(".json").write_text(text_of(result))
    draw_collection(result, options.output.with_suffix(".png"))
    for row in result["means"]:
        if row["sparsity"] is None:
            print(row)


if __name__ == "__main__":
    main()
