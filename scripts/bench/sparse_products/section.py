"""Tables of the documents on sparse operands: bench_sparse, bench_attention, bench_tilewise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from markdown_tables import table, us

Rows = Iterable[Mapping[str, Any]]
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
            "" if layer is None else f"{us(layer['us'])}, {layer['template']}",
        ])  # fmt: skip
    text = (
        f"One {result['device']}, {result['date']}, commit {result['commit'][:7]}. "
        f"Blocked-ELL has blocks of 128 x 128 of the same density. The last column is a layer of a "
        f"model with this weight, whose activations lie the other way round: the faster of what "
        f"skips zeros, turning included, and of a dense kernel, which is what `compile` takes."
    )
    titles = ["m x k x n, vector, sparsity", "autoq", "kernel", "cuBLASLt int8, dense",
              "cuBLASLt float16, dense", "cuSPARSE Blocked-ELL int8", "as a layer"]  # fmt: skip
    return table(text, titles, cells)


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


def pruned(result: Mapping[str, Any]) -> str:
    """Products with pruned weights, the fastest kernel of each, and the libraries' rows."""
    cells, turning = [], [row["turning_us"] for row in result["rows"] if row.get("turning_us")]
    for case, rows in _grouped(result["rows"], "case").items():
        row = _fastest([row for row in rows if "peer" not in row])
        libraries = {row["peer"]: row["us"] for row in rows if "peer" in row}
        if row is not None:
            dense = libraries.get("cublaslt", libraries.get("cublas", row.get("cublaslt_us")))
            sparse = [libraries.get(name) for name in ("cusparselt", "cusparse_csr", "blocked_ell")]
            other = next((time for time in sparse if time), row.get("cusparselt_us"))
            cells.append([case, us(row["us"]), us(dense), us(other), row["date"]])
    text = (
        f"One {result['device']}. Times of tiles include the transposition of the activations "
        f"({min(turning):.1f} to {max(turning):.1f} us)."
    )
    titles = ["case", "autoq", "cuBLASLt, dense", "cuSPARSELt 2:4", "date"]
    if any("peer" in row for row in result["rows"]):
        titles = ["case", "autoq", "cuBLAS, dense", "cuSPARSE, of the pattern", "date"]
    return table(text, titles, cells)


def _grouped(rows: Rows, key: str) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found


def _fastest(rows: Rows) -> Mapping[str, Any] | None:
    timed = [row for row in rows if row["us"] is not None]
    return min(timed, key=lambda row: row["us"], default=None)


SECTIONS = {
    "SPARSE": (products, "sparse_h200"),
    "SAMPLED": (sampled, "sparse_attention_h100"),
    "SPARSE_ATTENTION": (attention, "sparse_attention_h100"),
    "PRUNED": (pruned, "tilewise_h200"),
}
"""The text between the marks of each name, and the result that it is made from."""
