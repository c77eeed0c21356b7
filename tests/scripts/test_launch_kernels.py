"""The script that launches every template: what it does with kernels that do not compile."""

from __future__ import annotations

import zipfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import launch_kernels
import pytest

from autoq.errors import BuildError
from autoq.kernel.kernel_store import KernelStore
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import TEMPLATES
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
WORKLOAD = Gemm(64, 64, 64, "int8", "int8")


def _request(defaults_only: bool) -> launch_kernels.Request:
    return launch_kernels.Request(WORKLOAD, "gemm_wgmma", TARGET, TARGET, None, defaults_only)


def _compile_only(monkeypatch: pytest.MonkeyPatch, wanted: Any) -> None:
    def kernel(store: KernelStore, template: Any, workload: Any, config: Any, *rest: Any) -> str:
        if not wanted(template, config):
            raise BuildError("ptxas serialises its products")
        return "kernel"

    monkeypatch.setattr(KernelStore, "kernel", kernel)


def test_a_kernel_that_does_not_compile_is_named_and_the_others_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    default = launch_kernels.BY_NAME["gemm_wgmma"].default(WORKLOAD, TARGET)
    _compile_only(monkeypatch, lambda _, config: config == default)
    found, failed = launch_kernels.compile_request(_request(defaults_only=False))
    assert [item.candidate.config for item in found] == [default]
    assert failed
    assert all("gemm_wgmma" in line and "ptxas serialises" in line for line in failed)


def test_defaults_only_compiles_one_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    _compile_only(monkeypatch, lambda *_: True)
    found, failed = launch_kernels.compile_request(_request(defaults_only=True))
    assert len(found) == 1 and not failed


def test_build_exits_with_1_behind_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Pool:
        """Requests one by one in this process, which the patches above do not leave."""

        def __init__(self, jobs: int) -> None: ...
        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *error: object) -> None: ...
        def map(self, function: Any, items: Any) -> Any:
            return map(function, items)

    names = {template.name for template in TEMPLATES}
    _compile_only(monkeypatch, lambda template, _: template.name not in names)
    monkeypatch.setattr(launch_kernels, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(launch_kernels, "load_cases", lambda path: [WORKLOAD])
    options = Namespace(target="cuda:sm_90a", cases=[tmp_path], kernels=tmp_path / "k.zip",
                        kernel_store=None, defaults_only=True, jobs=1)  # fmt: skip
    with pytest.raises(SystemExit) as stop:
        launch_kernels.build(options)
    assert stop.value.code == 1
    assert "FAILED gemm_wgmma" in capsys.readouterr().out
    with zipfile.ZipFile(options.kernels) as archive:
        assert archive.namelist() == []
