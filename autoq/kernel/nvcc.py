"""CUDA source to cubin with nvcc, cached by content, with ptxas's report."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from autoq.errors import BuildError, TargetError
from autoq.kernel.lowering import store

FLAGS = ("-O3", "-std=c++17", "-cubin", "-Xptxas", "-v", "--expt-relaxed-constexpr")

# ptxas warns, and the kernel is then slow or wrong: wgmma serialised, registers exhausted.
_FATAL = re.compile(r"\bC7512\b|\bC7602\b|wgmma.*serializ", re.IGNORECASE)
# How nvcc and ptxas begin a complaint about what they were given to compile.
_SOURCE_ERROR = re.compile(r"kernel\.cu\(\d+\)|ptxas (error|fatal)|nvlink error")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes spill stores")


@dataclass(frozen=True)
class Cubin:
    """Machine code and the largest register count and spill bytes among its functions."""

    cubin: bytes
    registers: int
    spill_bytes: int


@functools.cache
def find_nvcc() -> str:
    """Absolute path of nvcc; raises TargetError where there is none."""
    path = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if path is None:
        raise TargetError(
            "nvcc not found on PATH or in /usr/local/cuda/bin; install the CUDA toolkit to "
            "compile for a CUDA target"
        )
    return str(Path(path).absolute())


@functools.cache
def nvcc_version() -> str:
    """The release nvcc prints, e.g. "13.0"."""
    text = subprocess.run([find_nvcc(), "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"release ([\d.]+)", text.stdout)
    return found.group(1) if found else "unknown"


def compile_cuda(source: str, arch: str, cache_dir: Path | None) -> Cubin:
    """Compile CUDA C++ for one arch such as "sm_90a".

    Raises BuildError with the compiler's first complaint, also for wgmma that ptxas serialises
    and for registers that do not suffice; such failures are cached as well. Raises TargetError
    when nvcc itself does not work here.
    """
    text = "\n".join([source, arch, nvcc_version(), *FLAGS])
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    if cache_dir is None:
        with tempfile.TemporaryDirectory() as folder:
            return _compile(source, arch, Path(folder))
    cubin, report = cache_dir / f"{digest}.cubin", cache_dir / f"{digest}.json"
    if report.exists():
        kept = json.loads(report.read_text())
        if kept["error"]:
            raise BuildError(kept["error"])
        if cubin.exists():
            return Cubin(cubin.read_bytes(), kept["registers"], kept["spill_bytes"])
    try:
        with tempfile.TemporaryDirectory() as folder:
            compiled = _compile(source, arch, Path(folder))
    except BuildError as error:
        store(report, json.dumps({"error": str(error)}).encode())
        raise
    store(cubin, compiled.cubin)
    kept = {"error": None, "registers": compiled.registers, "spill_bytes": compiled.spill_bytes}
    store(report, json.dumps(kept).encode())
    return compiled


def _compile(source: str, arch: str, folder: Path) -> Cubin:
    # Named relative to the folder, so that reports hold nothing of its path.
    (folder / "kernel.cu").write_text(source)
    number = arch.removeprefix("sm_")
    code = f"-gencode=arch=compute_{number},code=sm_{number}"
    command = [find_nvcc(), *FLAGS, code, "-o", "kernel.cubin", "kernel.cu"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    report = done.stdout + done.stderr
    if done.returncode:
        lines = [line for line in report.splitlines() if "error" in line.lower()]
        complaint = f"nvcc failed: {(lines or report.splitlines() or ['no output'])[0][:300]}"
        # No host compiler, a full disk: not the source's fault.
        if not _SOURCE_ERROR.search(report):
            raise TargetError(complaint)
        raise BuildError(complaint)
    fatal = next((line for line in report.splitlines() if _FATAL.search(line)), None)
    if fatal:
        raise BuildError(f"ptxas: {fatal.strip()[:300]}")
    return Cubin(
        cubin=(folder / "kernel.cubin").read_bytes(),
        registers=max(map(int, _REGISTERS.findall(report)), default=0),
        spill_bytes=max(map(int, _SPILLS.findall(report)), default=0),
    )
