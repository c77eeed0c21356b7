"""What the emulator is there for: kernels with a fault planted in their PTX are found out."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from with_nvcc import needs_nvcc

from autoq.templates.base import Template
from autoq.templates.cuda.halo.swapped import conv2d_swapped
from autoq.templates.cuda.mma_sync import conv2d_mma_sync
from autoq.templates.cuda.sparse.wgmma import spmm_wgmma
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Workload
from ptx import emulate, kernels
from ptx.emulate import EmulationFault
from ptx.program import UnknownInstruction

pytestmark = needs_nvcc

Case = tuple[Template, Workload, Target]
MMA_SYNC: Case = (
    conv2d_mma_sync.TEMPLATE,
    Conv2d(1, 9, 9, 32, 24, 3, 3, (1, 1), (1, 1, 1, 1)),
    parse_target("cuda:sm_80"),
)
SWAPPED: Case = (
    conv2d_swapped.TEMPLATE,
    Conv2d(1, 9, 9, 16, 24, 3, 3, (1, 1), (1, 1, 1, 1)),
    parse_target("cuda:sm_90a"),
)
WGMMA: Case = (gemm_wgmma.TEMPLATE, Gemm(70, 40, 2048), parse_target("cuda:sm_90a"))

# Blocks of a target of one multiprocessor have more tiles than their constants have places.
MANY_TILES: Case = (
    gemm_wgmma.TEMPLATE,
    Gemm(700, 64, 64, epilogue=Epilogue("int8", "int8", True)),
    parse_target("cuda:sm_90a").of_units(1),
)

LONG: Case = (
    spmm_wgmma.TEMPLATE,
    Spmm(64, 64, 150, 32, Structure(128, 56, 96)),
    parse_target("cuda:sm_90a"),
)


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
    monkeypatch: pytest.MonkeyPatch, case: Case, fault: Callable[[str], str], mode: str
) -> str | None:
    """What is wrong with a kernel that has a fault planted."""

    def planted(source: str, arch: str) -> tuple[str, bool]:
        before, suffice = emulate.ptx_and_headers(source, arch)
        after = fault(before)
        assert after != before, "the fault was not planted"
        return after, suffice

    template, workload, target = case
    config = template.default(workload, target)
    monkeypatch.setattr(kernels, "ptx_and_headers", planted)
    return kernels.wrong(template, workload, config, target, [mode])


def test_a_swapped_fragment_gives_wrong_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "elements wrong" in str(complaint(monkeypatch, MMA_SYNC, swap_fragments, "eager"))


@pytest.mark.parametrize(
    ("case", "instruction"),
    [(MMA_SYNC, "cp.async.wait_"), (WGMMA, "wgmma.wait_group")],
    ids=["cp.async", "wgmma"],
)
def test_a_missing_wait_gives_wrong_numbers_late(
    monkeypatch: pytest.MonkeyPatch, case: Case, instruction: str
) -> None:
    fault = without(instruction)
    assert complaint(monkeypatch, case, fault, "eager") is None
    assert "elements wrong" in str(complaint(monkeypatch, case, fault, "late"))


def test_copies_of_different_bytes_to_one_place_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They arrive in either order, though each is waited for; twice the same bytes do no harm."""
    copy = r"(cp\.async\.c[ag]\.shared\S+ [^;]*, 16, )([^;]*);"

    def twice(ptx: str) -> str:
        return re.sub(copy, r"\1\2; \1\2;", ptx, count=1)

    def zeros_before(ptx: str) -> str:
        return re.sub(copy, r"\g<1>0; \1\2;", ptx, count=1)

    for fault, mode in ((twice, "eager"), (twice, "late"), (zeros_before, "eager")):
        assert complaint(monkeypatch, MMA_SYNC, fault, mode) is None
    with pytest.raises(EmulationFault, match=r"other bytes to byte(.|\n)*`cp\.async"):
        complaint(monkeypatch, MMA_SYNC, zeros_before, "late")


def test_an_arrival_that_does_not_wait_for_copies_gives_wrong_numbers_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fault(ptx: str) -> str:
        early = r"mbarrier.arrive.shared.b64 _, \1;"
        return re.sub(r"cp\.async\.mbarrier\.arrive\.noinc\S+ (\[\S+\]);", early, ptx)

    assert complaint(monkeypatch, LONG, fault, "eager") is None
    assert "elements wrong" in str(complaint(monkeypatch, LONG, fault, "late"))


def test_a_missing_wait_for_an_mbarrier_gives_wrong_numbers_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No wait for a stage at all: its bytes are multiplied before they have come."""

    def fault(ptx: str) -> str:
        return re.sub(r"mbarrier\.try_wait\S+ P1, [^;]*;", "setp.eq.u32 P1, 0, 0;", ptx)

    with pytest.raises(EmulationFault, match=r"under way|more arrivals|ended"):
        complaint(monkeypatch, WGMMA, fault, "late")


def test_what_threads_write_is_fenced_before_a_bulk_store_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(
        EmulationFault, match=r"without a fence\.proxy\.async(.|\n)*`cp\.async\.bulk"
    ):
        complaint(monkeypatch, SWAPPED, without("fence.proxy.async"), "eager")


def test_what_threads_read_is_fenced_before_a_bulk_load_replaces_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = without("fence.proxy.async")
    assert complaint(monkeypatch, MANY_TILES, fault, "eager") is None
    with pytest.raises(
        EmulationFault, match=r"read without a fence\.proxy\.async(.|\n)*`cp\.async\.bulk"
    ):
        complaint(monkeypatch, MANY_TILES, fault, "proxies")


def test_an_activation_is_read_behind_the_wait_for_the_kernels_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(EmulationFault, match=r"before griddepcontrol\.wait"):
        complaint(monkeypatch, WGMMA, without("griddepcontrol.wait"), "eager")


def test_a_wait_for_an_mbarrier_that_nobody_arrives_at_is_a_deadlock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(EmulationFault, match=r"nothing can go on(.|\n)*4 arrivals"):
        complaint(monkeypatch, WGMMA, without("mbarrier.arrive.shared"), "eager")


def test_a_store_beyond_an_array_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EmulationFault, match=r"out of bounds(.|\n)*`st.global"):
        complaint(monkeypatch, MMA_SYNC, store_beyond, "eager")


def test_a_barrier_that_one_warp_leaves_out_is_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(ptx: str) -> str:
        start = ".reg .pred %skip; .reg .b32 %at, %of; mov.u32 %at, %tid.x; mov.u32 %of, %ntid.x;"
        wait = "setp.lt.u32 %skip, %at, 32; @%skip bra $skipped; bar.sync 3, %of; $skipped:"
        return ptx.replace("{\n", "{\n" + start + wait, 1)

    with pytest.raises(EmulationFault, match=r"nothing can go on(.|\n)*waits for barrier 3"):
        complaint(monkeypatch, MMA_SYNC, fault, "eager")


def test_an_instruction_that_the_emulator_does_not_know_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fault(ptx: str) -> str:
        return ptx.replace("ret;", "vabsdiff.s32.s32.s32 %r1, %r1, %r1; ret;")

    with pytest.raises(UnknownInstruction, match="vabsdiff"):
        complaint(monkeypatch, MMA_SYNC, fault, "eager")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_nvccs_own_steps_make_its_ptx(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'
    found = emulate.run_nvcc(source, arch, {})
    monkeypatch.setattr(emulate, "steps_to_ptx", lambda arch: "exit 1")
    assert emulate.run_nvcc(source, arch, {}) == found and "twice" in found[1]
