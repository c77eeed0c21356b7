"""Tables of the documents on sparse operands: bench_sparse, bench_attention."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from markdown_tables import table, us

Rows = Iterable[Mapping[str, Any]]
_PEERS = {
    "blocked_ell_int8 8": "cuSPARSE int8, blocks of 8",
    "blocked_ell_fastest": "cuSPARSE int8, its fastest blocks",
    "magicube": "Magicube's kernel, bytes", "vector_sparse": "vectorSparse's kernel, float16",
    "int8": "cuBLASLt int8, dense", "float16": "cuBLASLt float16, dense",
}  # fmt: skip
_COLLECTED = 256
"""Columns of the dense side that the README shows."""
_MEANS = {
    "blocked_ell_int8 8": "cuSPARSE, blocks of 8", "blocked_ell_fastest": "of up to 128",
    "magicube": "Magicube", "int8": "dense cuBLASLt",
}  # fmt: skip
_SHOWN = (
    ("4096x4096x4096 v8 0.9", "bytes, 4096 cubed, vectors of 8, 0.9",
     {"int8": "dense cuBLASLt", "blocked_ell_int8 8": "cuSPARSE", "magicube": "Magicube"}),
    ("4096x4096x4096 v128 0.75", "bytes, 4096 cubed, vectors of 128, 0.75",
     {"int8": "dense cuBLASLt", "blocked_ell_int8 128": "cuSPARSE"}),
)  # fmt: skip
_OWN_ATTENTION = ("sparse_attention_fused",)
_ATTENTION = "sparse attention 2x8 8192x8192x64 0.900 sparse float16 8-8"
_DENSE_ATTENTION = ("torch cudnn", "torch flash")
_LAYER = " as a layer"
"""Behind the name of a product that is measured as a layer of a model."""


def products(result: Mapping[str, Any]) -> str:
    """Sparse products, the fastest configuration of each case, beside dense and block-sparse."""
    cells, by_case = [], _grouped(result["rows"], "case")
    for case, rows in by_case.items():
        own = _fastest(row for row in rows if "template" in row)
        if own is None or case.endswith(_LAYER):
            continue
        layer = _fastest(by_case.get(case + _LAYER, ()))
        peers = {row["peer"]: row["us"] for row in rows if "peer" in row}
        blocked = "blocked_ell_int8 128"
        cells.append([
            case, us(own["us"]), own["template"], us(peers.get("int8")),
            us(peers.get("float16")), us(peers.get(blocked)),
            "-" if layer is None else f"{us(layer['us'])}, {layer['template']}",
        ])  # fmt: skip
    commits = sorted({row["commit"][:7] for row in result["rows"]})
    text = (
        f"One {result['device']}, {result['date']}, commits {', '.join(commits)}. "
        f"Blocked-ELL has blocks of 128 x 128 of the same density."
    )
    titles = ["m x k x n, vector, sparsity", "autoq", "kernel", "cuBLASLt int8, dense",
              "cuBLASLt float16, dense", "cuSPARSE Blocked-ELL int8", "as a layer"]  # fmt: skip
    if any(cell[-1] != "-" for cell in cells):
        text += (
            " The last column is a layer of a model with this weight, whose activations lie the "
            "other way round: the faster of what skips zeros, turning included, and of a dense "
            "kernel, which is what `compile` takes."
        )
    else:
        titles, cells = titles[:-1], [cell[:-1] for cell in cells]
    return table(text, titles, cells)


def collection(result: Mapping[str, Any]) -> str:
    """Geometric means of what peers take, by autoq's time, by columns and sparsity.

    Each number is by the untuned choice and, behind the comma, by the fastest that was tried. Rows
    of products with one scale are where such were timed.
    """
    cells, found = [], _grouped(result["means"], "n")
    for n, of_width in found.items():
        for sparsity in dict.fromkeys(row["sparsity"] for row in of_width):
            by_peer = {row["peer"]: row for row in of_width if row["sparsity"] == sparsity}
            words = "all" if sparsity is None else str(sparsity)
            numbers = _by_own(by_peer, "by_default", "by_fastest")
            cells.append([str(n), words, *numbers])
            if any("by_one_scale" in row for row in by_peer.values()):
                numbers = _by_own(by_peer, "by_one_scale_default", "by_one_scale")
                cells.append([str(n), f"{words}, one scale", *numbers])
    commits = ", ".join(dict.fromkeys(run["commit"][:7] for run in result["runs"]))
    text = f"One {result['device']}, commits {commits}."
    return table(text, ["columns", "sparsity", *_PEERS.values()], cells)


def _by_own(by_peer: Mapping[str, Mapping[str, Any]], *names: str) -> list[str]:
    """A text for each peer: some of its means."""
    rows = (by_peer.get(peer, {}) for peer in _PEERS)
    texts = ([f"{row[name]:.2f}" for name in names if name in row] for row in rows)
    return [", ".join(each) or "-" for each in texts]


def summary(
    products: Mapping[str, Any],
    collected: Mapping[str, Any],
    attentions: Mapping[str, Any],
    encoders: Mapping[str, Any],
) -> str:
    """Some rows of all that is sparse, for the README."""
    cells, by_case = [], _grouped(products["rows"], "case")
    for case, words, peers in _SHOWN:
        own = _fastest(row for row in by_case[case] if "template" in row)
        times = {row["peer"]: us(row["us"]) for row in by_case[case] if "peer" in row}
        others = ", ".join(f"{name} {times[peer]}" for peer, name in peers.items())
        cells.append([words, us(None if own is None else own["us"]), others])
    attended = _grouped(attentions["rows"], "workload")[_ATTENTION]
    own, dense = (
        _fastest(row for row in attended if row["kernel"] in kernels)
        for kernels in (_OWN_ATTENTION, _DENSE_ATTENTION)
    )
    times = [us(None if one is None else one["us"]) for one in (own, dense)]
    words = "attention, 8,192 tokens, 8 heads, batch 2, a mask of 0.9"
    cells.append([words, times[0], f"torch's fastest without a mask, float16 {times[1]}"])
    means = {row["peer"]: row["by_default"] for row in collected["means"]
             if row["sparsity"] is None and row["n"] == _COLLECTED}  # fmt: skip
    others = ", ".join(f"{name} {means[peer]:.2f}" for peer, name in _MEANS.items())
    words = f"96 matrices of pruned layers, {_COLLECTED} columns, geometric means"
    cells.append([words, "1", others])
    ratios = [min(row["peers"].values()) / row["autoq_us"] for row in encoders["cases"]
              if row["case"].endswith(" 0.9 8-8")]  # fmt: skip
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    words = f"encoders under masks of 0.9, {len(ratios)} shapes, geometric mean"
    cells.append([words, "1", f"torch's fastest without a mask, float16 {mean:.2f}"])
    device = products["device"].removeprefix("NVIDIA ")
    lines = [[f"sparse, one {device}, us", "autoq", "others"], ["---"] * 3, *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sampled(result: Mapping[str, Any]) -> str:
    """Sampled products, the fastest configuration of each."""
    of_products = [row for row in result["rows"] if row["workload"].startswith("sddmm")]
    found = _grouped(of_products, "workload")
    fastest = {name: _fastest(rows) for name, rows in found.items()}
    cells = [
        [name.removeprefix("sddmm "), us(row["us"]), row["date"]]
        for name, row in fastest.items() if row is not None
    ]  # fmt: skip
    return table(
        f"One {result['device']}.", ["m x n x k, vector, sparsity", "autoq", "date"], cells
    )


def attention(result: Mapping[str, Any]) -> str:
    """Attention under sparse masks in one kernel and in the paper's, beside torch's."""
    kernels = {
        "sparse_attention_fused": "one kernel", "sparse_attention_staged": "the paper's kernels",
        "torch cudnn": "cuDNN, dense", "torch flash": "flash, dense",
        "torch masked": "torch with the mask", "torch flex": "FlexAttention, blocks",
    }  # fmt: skip
    cells = []
    of_attention = [row for row in result["rows"] if row["workload"].startswith("sparse attention")]
    for name, rows in _grouped(of_attention, "workload").items():
        times = [_fastest(row for row in rows if row["kernel"] == kernel) for kernel in kernels]
        cells.append([
            name.removeprefix("sparse attention ").replace(" sparse float16", ""),
            *(us(None if row is None else row["us"]) for row in times), rows[0]["date"],
        ])  # fmt: skip
    titles = ["batch x heads, lengths x depth, sparsity, bits", *kernels.values(), "date"]
    return table(f"One {result['device']}.", titles, cells)


def _grouped(rows: Rows, key: str) -> dict[Any, list[Mapping[str, Any]]]:
    found: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found


def _fastest(rows: Rows) -> Mapping[str, Any] | None:
    timed = [row for row in rows if row["us"] is not None]
    return min(timed, key=lambda row: row["us"], default=None)


SECTIONS = {
    "SPARSE": (products, "sparse_h200"),
    "SPARSE_COLLECTION": (collection, "sparse_collection_h200"),
    "SAMPLED": (sampled, "sparse_attention_h200"),
    "SPARSE_ATTENTION": (attention, "sparse_attention_h200"),
}
"""The text between the marks of each name, and the result that it is made from."""
