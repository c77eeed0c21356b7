"""The section on convolutions says what the result says."""

from __future__ import annotations

from typing import Any

from convolutions.names import case_name
from convolutions.section import DENSE, GROUPED, section
from grouped_cases import convolutions as grouped_convolutions
from resnet50_cases import convolutions

from autoq.templates.operators.conv2d import Conv2d


def _row(case: str, autoq: float | None, peers: dict[str, float], source: str) -> dict[str, Any]:
    best = min(peers, key=lambda name: peers[name]) if peers else None
    return {
        "case": case, "autoq_us": autoq, "autoq_overlapped_us": autoq and autoq - 0.5,
        "peers": peers, "best_peer": best, "source": source,
        "speedup": peers[best] / autoq if best and autoq else None, "roofline_share": 0.5,
    }  # fmt: skip


RESULT = {
    "device": "NVIDIA H200", "driver": "580.1", "date": "2026-11-21",
    "commit": "abc1234",
    "peers": {"cudnn_int8": "9.19.0", "cublaslt_int8": "missing: libcublasLt was not found"},
    "cases": [
        _row("N8 3x3 56x56x64", 4.0, {"cudnn_int8": 8.0, "cudnn_fp16": 10.25}, "a.jsonl"),
        _row("N8 3x3 7x7x512", 9.0, {"cudnn_int8": 8.1}, "untuned default"),
        _row("N1 3x3 7x7x512", 5.0, {"cudnn_int8": 4.0}, "a.jsonl"),
        _row("N128 3x3 7x7x512", 20.0, {}, "a.jsonl"),
    ],
}  # fmt: skip


def test_table_and_summary() -> None:
    text = section(RESULT, DENSE)
    assert "| N8 3x3 56x56x64 | 4.00 | 3.50 | 8.00 | 10.2 | 2.00 | 50% |" in text
    assert "| N8 3x3 7x7x512 (untuned) | 9.00 | 8.50 | 8.10 | - | 0.90 | 50% |" in text
    assert "| N128 3x3 7x7x512 | 20.0 | 19.5 | - | - | - | 50% |" in text
    assert "| N1 " not in text
    assert "Of the 3 convolutions" in text and "every peer in 1." in text
    slowest_first = text.index("N1 3x3 7x7x512 (5.00 us"), text.index("N8 3x3 7x7x512 (9.00 us")
    assert slowest_first == tuple(sorted(slowest_first))
    assert "missing: libcublasLt was not found" in text


def test_shown_cases_exist() -> None:
    names = {case_name(case) for case in convolutions(8) if isinstance(case, Conv2d)}
    assert {f"N8 {case}" for case in DENSE} <= names
    assert {f"N8 {case}" for case in GROUPED} <= set(map(case_name, grouped_convolutions(8)))
