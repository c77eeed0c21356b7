"""Stored kernels: found without being built again, and never by anything they do not depend on."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from autoq.errors import BuildError
from autoq.kernel import kernel_store
from autoq.kernel.kernel_store import KernelStore
from autoq.runtime.kernel import CudaKernel
from autoq.templates.cuda.movement import add
from autoq.templates.operators.add import Add
from autoq.templates.target import parse_target

TARGET, OLDER = parse_target("cuda:sm_90a"), parse_target("cuda:sm_75")
WORKLOAD = Add((2, 7, 7, 32))
CONFIG = add.TEMPLATE.default(WORKLOAD, TARGET)


class Compiler:
    """Stands in for `compile_program` and counts what it is asked for."""

    def __init__(self) -> None:
        self.calls = 0
        self.error = ""

    def __call__(
        self, program: object, arrays: object, target: object, *, cache_dir: Path | None
    ) -> CudaKernel:
        self.calls += 1
        if self.error:
            raise BuildError(self.error)
        return CudaKernel((f"machine code {self.calls}".encode(),), (), ())


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    made = Compiler()
    monkeypatch.setattr(kernel_store, "compile_program", made)
    monkeypatch.setattr(kernel_store, "nvcc_version", lambda: "13.0")
    return made


def refuse(*_: object) -> None:
    raise AssertionError("built again")


def test_a_known_kernel_is_not_even_built(compiler: Compiler, tmp_path: Path) -> None:
    first = KernelStore(tmp_path).kernel(add.TEMPLATE, WORKLOAD, CONFIG, TARGET)
    refuse.__module__ = add.TEMPLATE.build.__module__
    again = KernelStore(tmp_path).kernel(
        dataclasses.replace(add.TEMPLATE, build=refuse), WORKLOAD, CONFIG, TARGET
    )
    assert again == first and compiler.calls == 1


def test_a_damaged_entry_is_made_again(compiler: Compiler, tmp_path: Path) -> None:
    store = KernelStore(tmp_path)
    store.kernel(add.TEMPLATE, WORKLOAD, CONFIG, TARGET)
    (entry,) = tmp_path.glob("*.kernel")
    whole = entry.read_bytes()
    at = whole.index(b"machine code")
    for damaged in (b"", whole[:at], whole[:at] + b"M" + whole[at + 1 :], b"\x80\x04N."):
        entry.write_bytes(damaged)
        before = compiler.calls
        found = store.kernel(add.TEMPLATE, WORKLOAD, CONFIG, TARGET)
        assert compiler.calls == before + 1
        assert found.modules == (f"machine code {compiler.calls}".encode(),)
        assert store.kernel(add.TEMPLATE, WORKLOAD, CONFIG, TARGET) == found


def test_entries_of_two_kernels_do_not_stand_in_for_each_other(
    compiler: Compiler, tmp_path: Path
) -> None:
    store = KernelStore(tmp_path)
    works = WORKLOAD, Add((2, 7, 7, 64))
    kernels = [store.kernel(add.TEMPLATE, work, CONFIG, TARGET) for work in works]
    first, second = tmp_path.glob("*.kernel")
    first.write_bytes(second.read_bytes())
    again = [store.kernel(add.TEMPLATE, work, CONFIG, TARGET) for work in works]
    assert compiler.calls == 3 and kernels != again


def test_a_known_error_is_raised_again(compiler: Compiler, tmp_path: Path) -> None:
    compiler.error = "nvcc failed: too many registers"
    for _ in range(2):
        with pytest.raises(BuildError, match="too many registers"):
            KernelStore(tmp_path).kernel(add.TEMPLATE, WORKLOAD, CONFIG, TARGET)
    assert compiler.calls == 1


def test_no_folder_compiles_anew(compiler: Compiler) -> None:
    for _ in range(2):
        KernelStore(None).kernel(add.TEMPLATE, WORKLOAD, CONFIG, TARGET)
    assert compiler.calls == 2


@pytest.mark.parametrize("what", ["workload", "config", "form", "compiler", "source"])
def test_whatever_a_kernel_depends_on_makes_another(
    what: str, compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, form = KernelStore(tmp_path), TARGET
    workload, config = WORKLOAD, CONFIG
    store.kernel(add.TEMPLATE, workload, config, TARGET, form)
    if what == "workload":
        workload = Add((2, 7, 7, 64))
    elif what == "config":
        config = dataclasses.replace(CONFIG, **{_a_knob(): _another_value()})
    elif what == "form":
        form = OLDER
    elif what == "compiler":
        monkeypatch.setattr(kernel_store, "nvcc_version", lambda: "13.1")
    else:
        monkeypatch.setattr(kernel_store, "source_hash", lambda module: f"edited {module}")
    store.kernel(add.TEMPLATE, workload, config, TARGET, form)
    assert compiler.calls == 2


def _a_knob() -> str:
    return next(iter(add.TEMPLATE.space(WORKLOAD, TARGET).knobs))


def _another_value() -> object:
    space = add.TEMPLATE.space(WORKLOAD, TARGET)
    return next(v for v in space.knobs[_a_knob()] if v != getattr(CONFIG, _a_knob()))


def test_a_template_made_in_a_function_is_not_stored(compiler: Compiler, tmp_path: Path) -> None:
    def build(*arguments: object) -> object:
        return add.TEMPLATE.build(*arguments)

    template = dataclasses.replace(add.TEMPLATE, build=build)
    for _ in range(2):
        KernelStore(tmp_path).kernel(template, WORKLOAD, CONFIG, TARGET)
    assert compiler.calls == 2
