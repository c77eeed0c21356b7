"""What the emulator is there for: kernels with a fault planted in their PTX are found out."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from with_nvcc import needs_nvcc

from autoq.templates.cuda.mma_sync.conv2d_mma_sync import TEMPLATE
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target
from ptx import emulate, kernels
from ptx.emulate import EmulationFault

pytestmark = needs_nvcc

TARGET = parse_target("cuda:sm_80")
WORKLOAD = Conv2d(1, 9, 9, 32, 24, 3, 3, (1, 1), (1, 1, 1, 1))


def swap_fragments(ptx: str) -> str:
    """The registers of the first product's second factor, the other way round."""
    pattern = r"(mma\.sync[^;]*?\{[^}]*\}[^{]*\{[^}]*\}[^{]*)\{(%r\d+), (%r\d+)\}"
    return re.sub(pattern, r"\1{\3, \2}", ptx, count=1)


def without(instruction: str) -> Callable[[str], str]:
    """A text without any statement that begins so."""
    return lambda ptx: re.sub(rf"\t{re.escape(instruction)}[^;]*;", "", ptx)


def store_beyond(ptx: str) -> str:
    """Every store to global memory, a few kilobytes further on."""
    return re.sub(r"(st\.global\.\S+\s+\[%rd\d+)(?:\+\d+)?\]", r"\1+60000]", ptx)


def complaint(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[str], str], mode: str
) -> str | None:
    """What is wrong with a kernel that has a fault planted."""
    genuine = emulate.ptx_of

    def planted(source: str, arch: str) -> str:
        before = genuine(source, arch)
        after = fault(before)
        assert after != before, "the fault was not planted"
        return after

    monkeypatch.setattr(kernels, "ptx_of", planted)
    config = TEMPLATE.default(WORKLOAD, TARGET)
    return kernels.wrong(TEMPLATE, WORKLOAD, config, TARGET, [mode])


def test_a_swapped_fragment_gives_wrong_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "elements wrong" in str(complaint(monkeypatch, swap_fragments, "eager"))


def test_a_missing_wait_gives_wrong_numbers_late(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = without("cp.async.wait_")
    assert complaint(monkeypatch, fault, "eager") is None
    assert "elements wrong" in str(complaint(monkeypatch, fault, "late"))


def test_a_store_beyond_an_array_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EmulationFault, match=r"out of bounds(.|\n)*`st.global"):
        complaint(monkeypatch, store_beyond, "eager")


def test_a_barrier_that_one_warp_leaves_out_is_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(ptx: str) -> str:
        start = ".reg .pred %skip; .reg .b32 %at, %of; mov.u32 %at, %tid.x; mov.u32 %of, %ntid.x;"
        wait = "setp.lt.u32 %skip, %at, 32; @%skip bra $skipped; bar.sync 3, %of; $skipped:"
        return ptx.replace("{\n", "{\n" + start + wait, 1)

    with pytest.raises(EmulationFault, match=r"nothing can go on(.|\n)*waits for barrier 3"):
        complaint(monkeypatch, fault, "eager")
