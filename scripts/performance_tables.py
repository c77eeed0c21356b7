"""Writes the tables of README.md and docs/performance.md from the results of the benchmarks.

Each table lies between two marks, <!-- NAME --> and <!-- /NAME -->; nothing else is touched. A
number that is not in a file of scripts/results does not get into a table.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "bench"))
from convolutions import section as conv_section
from markdown_tables import us
from pruned_products import section as pruned_section
from residual import section as residual_section
from sparse_attention import section as sparse_attention_section
from sparse_products import section as sparse_section
from transformer_networks import section as transformer_section

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "scripts" / "results"
PEERS = {
    "torch_fp16_cuda_graph": "torch fp16, CUDA graph",
    "torch_fp16_compile_reduce_overhead": "torch.compile, reduce-overhead",
}
NETWORKS = (
    "resnet50_h200",
    "efficientnet_b0_h200",
    "shufflenet_v2_h200",
    "resnet50_int4_h200",
)
SECTIONS = {
    **transformer_section.SECTIONS,
    **sparse_section.SECTIONS,
    **sparse_attention_section.SECTIONS,
    **pruned_section.SECTIONS,
    **residual_section.SECTIONS,
}
"""Tables of docs/performance.md that are made from one result each: the function and its stem."""

SPARSE_RESULTS = (
    "sparse_h200",
    "sparse_collection_h200",
    "sparse_attention_h200",
    "sparse_transformer_h200",
)

MOVEMENT = (
    "N8 average 112x112 112x112x32",
    "N8 average 14x14 14x14x672",
    "N8 average 7x7 7x7x2048",
    "N8 max 3x3 112x112x64",
    "add 8x56x56x256",
    "concat 25088x(128+128)",
    "quantize N8 224x224x3->16",
    "dequantize+dequantize+Mul+quantize 8x56x56x144 8x1x1x144",
    "Softmax 8x12x197x197",
    "Transpose 8x56x56x64",
)
"""Cases of `bench_movement.py` that the table shows; the text counts all."""

Results = Mapping[str, Mapping[str, Any]]


def summary(results: Results) -> str:
    """ResNet-50 at its batch sizes, and how often a convolution beats every library."""
    resnet = results["resnet50_h200"]
    titles = ["ResNet-50, batch", "autoq int8", *(f"{title}" for title in PEERS.values())]
    rows = [
        [_batch(case), _whole(case["autoq_us"]), *(_whole(case["peers"].get(p)) for p in PEERS)]
        for case in resnet["cases"]
    ]
    counts = []
    for name, kind in (("conv_h200", "distinct"), ("grouped_h200", "depthwise and grouped")):
        compared = [row for row in results[name]["cases"] if row["speedup"] is not None]
        won = sum(row["speedup"] >= 1 for row in compared)
        share = f"all {won}" if won == len(compared) else f"{won} of {len(compared)}"
        counts.append(f"{share} {kind}")
    text = (
        f"Microseconds per batch of 224x224 images, on one {resnet['device']}, {resnet['date']}, "
        f"commit {resnet['commit']}. Layer by layer, autoq is at least as fast as cuDNN (int8 and "
        f"float16) and cublasLt on {counts[0]} convolutions of ResNet-50, and on "
        f"{counts[1]} ones of other networks ({results['grouped_h200']['date']}). "
    ) + transformer_section.sentence(results["transformers_h200"])
    return "\n".join([*_table(titles, rows), "", *textwrap.wrap(text, 100)])


def networks(results: Results) -> str:
    """Whole networks: time, host time, peers and the error of the outputs."""
    titles = ["network, batch", "autoq", "host", *PEERS.values(), "largest error", "file, commit"]
    rows = []
    for name in NETWORKS:
        for case in results[name]["cases"]:
            times = [case["autoq_us"], case["host_us_a_call"]]
            cells = [_whole(times[0]), us(times[1])]
            cells += [_whole(case["peers"].get(peer)) for peer in PEERS]
            link = f"[{name}.json](../scripts/results/{name}.json), {results[name]['commit'][:7]}"
            rows.append([f"{_network(case)}, {_batch(case)}", *cells, _error(case), link])
    return "\n".join(_table(titles, rows))


def movement(results: Results) -> str:
    """Kernels that memory limits, beside the time that their bytes take."""
    result = results["movement_h200"]
    rows = {row["case"]: row for row in result["rows"]}
    shown = [[n, us(rows[n]["us"]), us(rows[n]["floor_us"])] for n in MOVEMENT if n in rows]
    within = sum(row["within"] for row in rows.values())
    text = (
        f"One {result['device']}, {result['date']}, commit {result['commit'][:7]}. Of "
        f"{len(rows)} cases {within} take at most 1.5 times their floor, or 2 us more."
    )
    lines = textwrap.wrap(text, 100)
    return "\n".join([*lines, "", *_table(["case", "us", "floor"], shown)])


def products(results: Results) -> str:
    """Matrix products beside cuBLASLt, and how often one is ahead."""
    result = results["gemm_h200"]
    rows, compared = [], []
    for case in result["cases"]:
        peer = case["peers"].get(case["best_peer"])
        speedup = "-" if peer is None else f"{case['speedup']:.2f}"
        compared += [case["speedup"]] if peer is not None else []
        times = [us(case["autoq_us"]), us(case["autoq_overlapped_us"]), us(peer)]
        made = f"{case['date']}, {case['commit'][:7]}"
        rows.append([case["case"], *times, speedup, f"{case['tops']:.0f}", made])
    won = sum(speedup >= 1 for speedup in compared)
    text = (
        f"One {result['device']}. autoq is at least as fast as cuBLASLt in {won} of "
        f"{len(compared)} cases. TOPS are autoq's, of floats TFLOPS. Overlapped launches may "
        "start while the one before drains; they count in no comparison."
    )
    titles = ["case", "autoq", "overlapped", "cuBLASLt", "speed-up", "TOPS", "date, commit"]
    return "\n".join([*textwrap.wrap(text, 100), "", *_table(titles, rows)])


def quoted_products(results: Results) -> str:
    """Matrix products beside peers that are quoted."""
    rows = [
        [case["case"], us(case["autoq_us"]), quote["peer"], us(quote["us"]),
         f"{quote['us'] / case['autoq_us']:.2f}", quote["date"]]
        for case in results["gemm_h200"]["cases"]
        for quote in case["quoted"]
    ]  # fmt: skip
    titles = ["case", "autoq", "peer", "its time", "speed-up", "date of its time"]
    return "\n".join(_table(titles, rows))


def cpu_models(results: Results) -> str:
    """Networks of products on a CPU beside onnxruntime, and the least and the largest ratio."""
    result = results["cpu_models"]
    rows, ratios = [], []
    for case in result["cases"]:
        names = ("untuned", "tuned", "onnxruntime")
        times = [case[name]["cpu_us_least"] for name in names]
        ratios.append(times[0] / times[-1])
        cells = [f"{taken / 1e3:.2f}" for taken in times]
        rows.append([case["case"], str(case["threads"]), *cells, f"{ratios[-1]:.2f}",
                     f"{case['load']:.0f}", f"{case['date']}, {case['commit'][:7]}"])  # fmt: skip
    text = (
        f"One {result['device']}, onnxruntime {result['onnxruntime']}. Untuned, autoq takes "
        f"{min(ratios):.2f} to {max(ratios):.2f} times onnxruntime's time."
    )
    titles = ["network", "threads", "untuned", "tuned", "onnxruntime", "untuned / onnxruntime",
              "load", "date, commit"]  # fmt: skip
    return "\n".join([*textwrap.wrap(text, 100), "", *_table(titles, rows)])


def four_bits(results: Results) -> str:
    """Weights of 4 bits on a CPU beside onnxruntime, and the least and the largest ratios."""
    result = results["cpu_four_bits"]
    rows, ratios = [], []
    for case in result["cases"]:
        kind = "cpu_us_median" if case["threads"] == 1 else "wall_us_least"
        taken = [case[name][kind] for name in ("autoq", "onnxruntime", "onnxruntime_bytes")]
        errors = [case[name]["largest_error"] for name in ("autoq", "onnxruntime_bytes")]
        if case["threads"] == 1:
            ratios.append([taken[0] / peer for peer in taken[1:]])
        rows.append([case["case"], str(case["threads"]), *(f"{t:,.0f}" for t in taken),
                     *(f"{taken[0] / peer:.2f}" for peer in taken[1:]),
                     *(f"{error:.0e}" for error in errors),
                     f"{case['load']:.0f}", f"{case['date']}, {case['commit'][:7]}"])  # fmt: skip
    (low, high), (least, most) = ((min(r), max(r)) for r in zip(*ratios, strict=True))
    text = (
        f"{result['cases'][0]['device']}, onnxruntime {result['onnxruntime']}. On one thread autoq "
        f"takes {low:.2f} to {high:.2f} times the time of onnxruntime in float32, and {least:.2f} "
        f"to {most:.2f} times that of onnxruntime with bytes."
    )
    titles = ["m x n x k", "threads", "autoq", "onnxruntime", "with bytes", "ratio",
              "ratio with bytes", "error", "with bytes", "load", "date, commit"]  # fmt: skip
    return "\n".join([*textwrap.wrap(text, 100), "", *_table(titles, rows)])


def sections(results: Results) -> dict[str, str]:
    """The text between the marks of each name."""
    return {
        "SUMMARY": summary(results),
        "NETWORKS": networks(results),
        "CONVOLUTIONS": conv_section.section(results["conv_h200"], conv_section.DENSE),
        "GROUPED": conv_section.section(results["grouped_h200"], conv_section.GROUPED),
        "PRODUCTS": products(results),
        "QUOTED": quoted_products(results),
        "MOVEMENT": movement(results),
        "CPU": cpu_models(results),
        "FOUR_BITS": four_bits(results),
        "RESIDUAL_SUMMARY": residual_section.summary(
            results["residual_cpu"], results["residual_h200"]
        ),
        "SPARSE_SUMMARY": sparse_section.summary(*map(results.__getitem__, SPARSE_RESULTS))
        + f"\n{pruned_section.summary_rows(results['pruned_networks_h200'])}",
        **{name: make(results[stem]) for name, (make, stem) in SECTIONS.items()},
    }


DOCUMENTS = {
    ROOT / "README.md": ("SUMMARY", "SPARSE_SUMMARY", "RESIDUAL_SUMMARY"),
    ROOT / "docs" / "performance.md": (
        "NETWORKS",
        "CONVOLUTIONS",
        "GROUPED",
        "PRODUCTS",
        "QUOTED",
        "MOVEMENT",
        "CPU",
        "FOUR_BITS",
        *SECTIONS,
    ),
}


def load(folder: Path) -> Results:
    """The results that the tables need, by the stem of their file."""
    stems = {stem for _, stem in SECTIONS.values()}
    names = (*NETWORKS, "conv_h200", "grouped_h200", "gemm_h200", "movement_h200", "cpu_models",
             "cpu_four_bits", *stems)  # fmt: skip
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in names}


def replaced(document: str, name: str, text: str) -> str:
    """The document with `text` between the marks of a name; ValueError when it has none."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, opened, rest = document.partition(opening)
    _, closed, after = rest.partition(closing)
    if not opened or not closed:
        raise ValueError(f"the document lacks the marks {opening} and {closing}")
    return f"{before}{opening}\n{text}\n{closing}{after}"


def written(document: str, names: Sequence[str], results: Results) -> str:
    """A document with its tables made anew."""
    texts = sections(results)
    for name in names:
        document = replaced(document, name, texts[name])
    return document


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [titles, ["---"] * len(titles), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _network(case: Mapping[str, Any]) -> str:
    name, _, _, dtype = case["case"].rsplit(" ", 3)
    return f"{name} {dtype}"


def _batch(case: Mapping[str, Any]) -> str:
    return str(case["case"].rsplit(" ", 3)[1].removeprefix("N"))


def _error(case: Mapping[str, Any]) -> str:
    reference = case.get("reference", "onnxruntime")
    steps = f"{case['max_error_steps']:.0f} against {reference}"
    if reference == "onnxruntime":
        steps += f", {case['max_error_steps_of_float_emulation']:.0f} against its emulation"
    return steps


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    results = load(RESULTS)
    for path, names in DOCUMENTS.items():
        path.write_text(written(path.read_text(), names, results))


if __name__ == "__main__":
    main()
