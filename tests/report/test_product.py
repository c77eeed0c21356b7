"""The report of one product, with a library beside it and without."""

from __future__ import annotations

from collections import Counter

import pytest

from autoq.report.events import TaskRow, TuneSummary
from autoq.report.product import Line, product_text
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.workload import Workload

CONFIG = {"block_m": 128, "stages": 4}
UNTUNED = Line("untuned", 2e-6, "gemm_wgmma", {"block_m": 64, "stages": 4})


def _summary(workload: Workload, **known: object) -> TuneSummary:
    row = TaskRow(0, workload, 1, (), 3, **known)
    return TuneSummary("x.jsonl", "H200", (row,), 3, 61.0, "trials", {})


def _rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_library_has_a_line_of_the_same_units() -> None:
    workload = FloatGemm(1000, 1000, 1000)
    summary = _summary(workload, seconds=1e-6, template="gemm_wgmma", config=CONFIG)
    beside = Line("cuBLASLt 13.0.1", 4e-6, "algorithm 66; f16 x f16 -> f16")
    header, _, untuned, best, library, *_, ending = _rows(
        product_text(summary, UNTUNED, beside, 1e-6)
    )
    assert header == ["time", "TFLOPS", "roofline", "how"]
    assert untuned[:5] == ["untuned", "2", "us", "1,000", "50%"]
    assert best == ["best", "1", "us", "2,000", "100%", "gemm_wgmma"]
    assert library[:7] == ["cuBLASLt", "13.0.1", "4", "us", "500", "25%", "algorithm"]
    assert " ".join(ending) == (
        "finished after 1 min 1 s on H200: 3 trials measured, failures: none"
    )


def test_why_there_is_no_library_is_a_line_behind_the_table() -> None:
    summary = _summary(Gemm(8, 8, 8), seconds=2e-6, untuned=True)
    header, _, _, best, *_, library, _ = _rows(
        product_text(summary, UNTUNED, "cuBLASLt: none", 0.0)
    )
    assert "TOPS" in header
    assert best[4:] == ["-", "the", "untuned", "default"]
    assert library == ["cuBLASLt:", "none"]


@pytest.mark.parametrize(("trials", "words"), [(3, "none works yet"), (0, "none was measured")])
def test_nothing_that_works(trials: int, words: str) -> None:
    row = TaskRow(0, Gemm(8, 8, 8), 1, (), trials, failures=Counter({"compile": trials}))
    summary = TuneSummary("x.jsonl", "H200", (row,), trials, 1.0, "time", {})
    best = product_text(summary, UNTUNED, "", 0.0).splitlines()[3]
    assert best.startswith("best") and best.endswith(words)
    assert best.split()[1:4] == ["-", "-", "-"]


def test_a_claim_is_named_one() -> None:
    summary = _summary(Gemm(8, 8, 8), seconds=1e-6, template="t", config={}, unsettled=True)
    assert "t, not yet compared in turn" in product_text(summary, UNTUNED, "", 0.0)


def _knob_part(**known: object) -> list[str]:
    text = product_text(_summary(Gemm(8, 8, 8), **known), UNTUNED, "", 0.0)
    return text.split("\n\n")[1].splitlines()


def test_knobs_stand_below_the_table_with_what_the_default_has_instead() -> None:
    best = {"seconds": 1e-6, "template": "gemm_wgmma", "config": CONFIG}
    assert _knob_part(**best) == [
        "knobs of the best:", "  block_m=128 stages=4", "where the untuned default has block_m=64",
    ]  # fmt: skip
    assert _knob_part(**best | {"template": "another"})[2:] == []
    assert _knob_part(seconds=2e-6, untuned=True) == [
        "knobs of the untuned default:", "  block_m=64 stages=4",
    ]  # fmt: skip


def test_knobs_are_wrapped_between_one_another() -> None:
    many = {f"knob{number}": {"a": number, "b": True} for number in range(20)}
    lines = _knob_part(seconds=1e-6, template="t", config=many)[1:]
    assert len(lines) > 4 and all(len(line) <= 100 for line in lines)
    words = " ".join(line.strip() for line in lines)
    assert words == " ".join(f"knob{n}=(a={n}, b=True)" for n in range(20))
