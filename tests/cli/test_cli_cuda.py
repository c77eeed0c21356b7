"""Compiling for CUDA, on hosts with and without a GPU or a compiler."""

import json
import tarfile

import pytest
from with_nvcc import needs_nvcc

from autoq.kernel.nvcc import find_nvcc
from autoq.runtime.cuda.driver import device_count


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_an_artifact_holds_machine_code_for_the_arch(autoq, folder, model, arch):
    screen = autoq("compile", model, "--target", f"cuda:{arch}", "-o", "m.tar",
                   "--no-shipped-records")  # fmt: skip
    assert screen.code == 0, screen
    assert f"kernels for cuda {arch}" in screen.out
    with tarfile.open("m.tar") as tar:
        manifest = json.load(tar.extractfile("manifest.json"))
        assert manifest["plan"]["arch"] == arch
        names = [name for name in tar.getnames() if name.startswith("kernels/")]
        assert len(names) == len(manifest["kernels"]) >= 4
        for name in names:
            code = tar.extractfile(name).read()
            assert code.startswith(b"\x7fELF")
            # e_flags of a cubin carries the arch: in its low byte up to CUDA 12, in the next
            # byte since CUDA 13.
            flags = int.from_bytes(code[48:52], "little")
            assert int(arch[3:5]) in (flags & 0xFF, flags >> 8 & 0xFF), hex(flags)


@needs_nvcc
@pytest.mark.skipif(device_count() > 0, reason="there is a CUDA GPU")
def test_running_it_without_a_gpu(autoq, folder, model):
    assert autoq("compile", model, "--target", "cuda:sm_80", "-o", "m.tar").code == 0
    assert autoq("run", "m.tar").is_one_line("no CUDA GPU")


def test_compiling_without_nvcc(refuses, model, monkeypatch):
    monkeypatch.setattr("autoq.kernel.nvcc.shutil.which", lambda *_, **__: None)
    find_nvcc.cache_clear()
    monkeypatch.setenv("AUTOQ_CACHE_DIR", "/nonexistent")
    try:
        refuses("compile", model, "--target", "cuda:sm_80", "-o", "m.tar",
                words=("nvcc not found", "CUDA toolkit"))  # fmt: skip
    finally:
        find_nvcc.cache_clear()
