"""The short cut in TVM's parser gives the same kernels."""

from __future__ import annotations

import inspect
from types import FrameType

import pytest
from tvm.script import tirx as T
from tvm.script.parser.core.parser import ScriptMacro

from autoq.kernel import tvm_script
from autoq.templates.cuda.halo.swapped.conv2d_swapped import TEMPLATE
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
WORKLOAD = Conv2d(n=1, h=8, w=8, c=16, k=16, r=3, s=3, padding=(1, 1, 1, 1))


def script() -> str:
    return TEMPLATE.build(WORKLOAD, TEMPLATE.default(WORKLOAD, TARGET), TARGET).script()


def slow_search(macro: ScriptMacro) -> object:
    """TVM's own search, as of 0.27."""
    for info in inspect.getouterframes(inspect.currentframe()):
        parser = info.frame.f_globals.get(macro.parser_object_name)
        if parser is not None:
            return parser
    raise RuntimeError("no parser")


def test_the_kernel_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = script()
    monkeypatch.setattr(ScriptMacro, "_find_parser_def", slow_search)
    assert script() == quick


def test_macros_describe_no_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[object] = []
    real = inspect.getouterframes

    def counted(frame: FrameType, context: int = 1) -> list[inspect.FrameInfo]:
        described.append(frame)
        return real(frame, context)

    monkeypatch.setattr(inspect, "getouterframes", counted)
    script()
    quick = len(described)
    monkeypatch.setattr(ScriptMacro, "_find_parser_def", slow_search)
    script()
    assert len(described) - quick > quick + 20


def test_a_macro_outside_of_a_kernel_says_so() -> None:
    @T.inline
    def outside() -> None:
        pass

    with pytest.raises(RuntimeError, match="not available"):
        outside()


def test_a_tvm_without_the_search_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ScriptMacro, "_find_parser_def")
    tvm_script.quicken_macros()
    assert not hasattr(ScriptMacro, "_find_parser_def")
