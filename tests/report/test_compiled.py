"""What `autoq compile` says besides its table."""

from __future__ import annotations

from pathlib import Path

from autoq.compiler import CompileReport
from autoq.devices import resolve
from autoq.report.compiled import compile_text


def test_layers_that_compute_in_float32_are_named_with_the_reason():
    reasons = {"conv1": "its bias is no constant"}
    report = CompileReport(Path("m.tar"), resolve("cpu"), (), {}, reasons)
    lines = compile_text(report).splitlines()
    assert "conv1 runs in float32 although its tensors are 8-bit: its bias is no constant" in lines
    assert "float32" not in compile_text(CompileReport(Path("m.tar"), resolve("cpu"), (), {}, {}))
