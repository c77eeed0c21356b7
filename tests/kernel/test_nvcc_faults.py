"""What nvcc's failures mean: the source's fault, the compiler's, or the machine's."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoq.errors import BuildError, CompilerDied, EnvironmentFault, TargetError
from autoq.kernel import nvcc

SOURCE = "__global__ void k() {}"


@pytest.fixture
def fake_nvcc(tmp_path, monkeypatch):
    """Makes nvcc a shell script with the given body."""

    def install(body: str) -> None:
        path = tmp_path / "nvcc"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        monkeypatch.setattr(nvcc, "find_nvcc", lambda: str(path))
        monkeypatch.setattr(nvcc, "nvcc_version", lambda: "13.0")

    return install


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("echo 'kernel.cu(3): error: no x'; exit 2", BuildError, "no x"),
        ("echo 'ptxas error   : too many registers'; exit 255", BuildError, "registers"),
        ("echo 'nvcc fatal : no host compiler'; exit 1", TargetError, "no host compiler"),
        ("exit 1", TargetError, "no output"),
        ("echo 'ptxas fatal   : Memory allocation failure'; exit 1", EnvironmentFault, "Memory"),
        ("echo 'kernel.cu(1): error: write: No space left on device'; exit 1",
         EnvironmentFault, "No space left"),
        ("echo \"nvcc error   : 'ptxas' died due to signal 11\"; exit 139", CompilerDied, "11"),
        ("kill -9 $$", CompilerDied, "signal 9"),
        ("exit 0", EnvironmentFault, "No such file"),
        ("touch kernel.cubin; echo \"ptxas info : (C7508) 'setmaxnreg' ignored\"", BuildError,
         "C7508"),
    ],
)  # fmt: skip
def test_a_failure_is_told_by_whose_it_is(fake_nvcc, tmp_path, body, error, message):
    fake_nvcc(body)
    for _ in range(2):
        with pytest.raises(error, match=message) as raised:
            nvcc.compile_cuda(SOURCE, "sm_80", tmp_path / "cache")
        assert type(raised.value) is error
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(kept) == (error is BuildError)


@pytest.mark.parametrize(("number", "outside"), [(9, True), (15, True), (11, False), (6, False)])
def test_who_ended_the_compiler(fake_nvcc, number, outside):
    fake_nvcc(f"echo \"nvcc error : 'cicc' died due to signal {number}\"; exit 1")
    with pytest.raises(CompilerDied) as raised:
        nvcc.compile_cuda(SOURCE, "sm_80", None)
    assert raised.value.outside == outside


def test_an_nvcc_that_is_gone_is_the_machines_fault(fake_nvcc):
    fake_nvcc("exit 0")
    Path(nvcc.find_nvcc()).unlink()
    with pytest.raises(EnvironmentFault, match="nvcc cannot be run"):
        nvcc.compile_cuda(SOURCE, "sm_80", None)


def test_nvcc_keeps_its_files_where_they_are_removed(fake_nvcc, tmp_path):
    fake_nvcc(f'touch "$TMPDIR/left"; echo "$TMPDIR" > {tmp_path}/where; touch kernel.cubin')
    nvcc.compile_cuda(SOURCE, "sm_80", None)
    where = Path((tmp_path / "where").read_text().strip())
    assert where.name.startswith("autoq-scratch-") and not where.exists()
