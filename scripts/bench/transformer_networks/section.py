"""Tables of the documents on transformers, of bench_transformers.py and bench_gemm.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markdown_tables import table, us

_TORCH = {"torch_fp16_cuda_graph": "torch fp16, CUDA graph", "torch_fp16_compile": "torch.compile"}


def networks(result: Mapping[str, Any]) -> str:
    """Whole transformers on a GPU beside torch in float16."""
    peers = [peer for peer in _TORCH if any(peer in case["peers"] for case in result["cases"])]
    cells = []
    for case in result["cases"]:
        others = [case["peers"].get(peer) for peer in peers]
        ratio = min(other for other in others if other is not None) / case["autoq_us"]
        cells.append([
            case["case"], _whole(case["autoq_us"]), *map(_whole, others), f"{ratio:.2f}",
            str(case["kernels"]), _error(case["mean_error"]),
            _error(case.get("onnxruntime_error")), _when(case),
        ])  # fmt: skip
    titles = ["network", "autoq", *(_TORCH[peer] for peer in peers), "speed-up", "kernels",
              "mean error", "onnxruntime's", "date, commit"]  # fmt: skip
    return table(f"One {result['device']}.", titles, cells)


def sentence(result: Mapping[str, Any]) -> str:
    """How much faster than the faster form of torch the 8-bit transformers of batch 8 are."""
    ratios = [
        min(case["peers"].values()) / case["autoq_us"]
        for case in result["cases"]
        if " N8 " in case["case"] and case["case"].endswith(" int8")
    ]
    low, high = min(ratios), max(ratios)
    return (
        f"8-bit ViT, BERT, ConvNeXt and DenseNet at batch 8 are {low:.1f} to {high:.1f} "
        f"times as fast as torch in float16."
    )


def networks_on_a_cpu(result: Mapping[str, Any]) -> str:
    """Whole transformers on a CPU beside onnxruntime."""
    cells, ratios = [], []
    for case in result["cases"]:
        taken, peer = case["autoq_us"], case["peers"]["onnxruntime"]
        ratios.append(taken / peer)
        cells.append([
            case["case"], str(case["threads"]), f"{taken / 1e3:.1f}", f"{peer / 1e3:.1f}",
            f"{ratios[-1]:.2f}", f"{case['load']:.1f}", _when(case),
        ])  # fmt: skip
    text = (
        f"{result['device']}. autoq takes {min(ratios):.2f} to {max(ratios):.2f} times "
        f"onnxruntime's time. Milliseconds of the process's CPU time, medians; `load` is the "
        f"machine's average load."
    )
    titles = ["network", "threads", "autoq", "onnxruntime", "ratio", "load", "date, commit"]
    return table(text, titles, cells)


def attention(result: Mapping[str, Any]) -> str:
    """Attention in one kernel beside torch's fastest, and how often it is ahead."""
    cells, ahead = [], 0
    for case in result["cases"]:
        ahead += case["speedup"] >= 1
        cells.append([
            case["case"].removeprefix("attention "), us(case["autoq_us"]),
            us(case["peers"][case["best_peer"]]), f"{case['speedup']:.2f}",
            case["config"]["template"], _when(case),
        ])  # fmt: skip
    text = f"One {result['device']}. autoq is at least as fast in {ahead} of {len(cells)} cases."
    titles = ["case", "autoq", "torch's fastest, float16", "speed-up", "kernel", "date, commit"]
    return table(text, titles, cells)


def _when(case: Mapping[str, Any]) -> str:
    return f"{case['date']}, {case['commit'][:7]}"


def _error(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


SECTIONS = {
    "TRANSFORMERS": (networks, "transformers_h200"),
    "TRANSFORMERS_CPU": (networks_on_a_cpu, "transformers_cpu"),
    "ATTENTION": (attention, "attention_h200"),
}
"""The text between the marks of each name, and the result that it is made from."""
