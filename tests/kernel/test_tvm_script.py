"""The short cuts in TVM's parser give the same kernels."""

from __future__ import annotations

import inspect
from types import FrameType

import pytest
import tvm
from tvm.script import tirx as T
from tvm.script.parser.core import doc

from autoq.kernel import tvm_script
from autoq.kernel.tvm_script import SHORT_CUTS
from autoq.templates.cuda.mma_sync.conv2d_mma_sync import TEMPLATE as MMA_SYNC
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
WORKLOAD = Conv2d(n=1, h=8, w=8, c=16, k=16, r=3, s=3, padding=(1, 1, 1, 1))


def kernel() -> str:
    """A kernel with the places in the source that it is from."""
    config = MMA_SYNC.default(WORKLOAD, TARGET)
    return str(tvm.ir.save_json(MMA_SYNC.build(WORKLOAD, config, TARGET)))


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """TVM's own functions, as of 0.27."""
    for owner, name, _ in SHORT_CUTS:
        monkeypatch.setattr(owner, name, getattr(owner, name).__wrapped__)
    return monkeypatch


def counted(name: str, monkeypatch: pytest.MonkeyPatch) -> list[FrameType]:
    """The frames that a function of `inspect` is called with from now on."""
    found: list[FrameType] = []
    real = getattr(inspect, name)

    def called(frame: FrameType, context: int = 1) -> object:
        found.append(frame)
        return real(frame, context)

    monkeypatch.setattr(inspect, name, called)
    return found


def test_the_kernel_is_the_same_and_no_callers_are_described(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = counted("getouterframes", monkeypatch)
    quick = kernel()
    assert kernel() == quick
    assert not described
    request.getfixturevalue("without")
    assert kernel() == quick
    assert len(described) > 20


def test_a_macro_outside_of_a_kernel_says_so() -> None:
    @T.inline
    def outside() -> None:
        pass

    with pytest.raises(RuntimeError, match="not available"):
        outside()


def test_a_tree_that_is_changed_is_not_found_again() -> None:
    first = doc.parse("x = 1")
    first.body.clear()
    assert len(doc.parse("x = 1").body) == 1


def test_what_an_expression_lacks_is_said_as_before(request: pytest.FixtureRequest) -> None:
    class Empty:
        pass

    nothing, one = Empty(), {"one": 1}

    def attribute() -> None:
        @T.prim_func
        def main() -> None:
            T.evaluate(nothing.extent)

    def entry() -> None:
        @T.prim_func
        def main() -> None:
            T.evaluate(one["two"])

    def name() -> None:
        @T.prim_func
        def main() -> None:
            T.evaluate(unheard_of(1))  # noqa: F821

    complaints = []
    for _ in range(2):
        for function in (attribute, entry, name):
            with pytest.raises(Exception) as raised:
                function()
            complaints.append((type(raised.value).__name__, str(raised.value)))
        if len(complaints) == 3:
            request.getfixturevalue("without")
    assert complaints[:3] == complaints[3:]
    assert "extent" in complaints[0][1]
    assert "unheard_of" in complaints[2][1]


def test_each_is_taken_once_and_an_unknown_tvm_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = [getattr(owner, name) for owner, name, _ in SHORT_CUTS]
    tvm_script.quicken_parser()
    assert [getattr(owner, name) for owner, name, _ in SHORT_CUTS] == taken
    for owner, name, _ in SHORT_CUTS:
        monkeypatch.delattr(owner, name)
    tvm_script.quicken_parser()
    assert not any(hasattr(owner, name) for owner, name, _ in SHORT_CUTS)
