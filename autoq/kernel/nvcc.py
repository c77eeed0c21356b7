"""CUDA source to cubin with nvcc, cached by content, with ptxas's report."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoq.cache import pack, read_entry, unpack, write_entry
from autoq.errors import AutoqError, BuildError, CompilerDied, EnvironmentFault, TargetError
from autoq.kernel.declarations import Declarations
from autoq.kernel.device_headers import DEVICE_HEADERS, headers_of, includes_no_others
from autoq.process.blame import from_outside, machines_fault
from autoq.scratch import scratch_folder

FLAGS = ("-O3", "-std=c++17", "-cubin", "-I.", "-Xptxas", "-v", "--expt-relaxed-constexpr")

# ptxas warns, and the kernel is then slow or wrong: setmaxnreg ignored, so that consumers spill,
# wgmma serialised, registers exhausted.
_FATAL = re.compile(r"\bC7508\b|\bC7512\b|\bC7602\b|wgmma.*serializ", re.IGNORECASE)
# How nvcc and ptxas begin a complaint about what they were given to compile.
_SOURCE_ERROR = re.compile(r"kernel\.cu\(\d+\)|ptxas (error|fatal)|nvlink error")
# How nvcc says that a program it runs was ended: "'ptxas' died due to signal 9 (Kill signal)".
_DIED = re.compile(r"died due to signal (\d+)")
# What no header changes: all that ptxas says but that a function has no body.
_BEHIND_HEADERS = re.compile(
    r"^ptxas (error|fatal)(?!.*Unresolved extern)|died due to signal", re.MULTILINE
)
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

    Raises BuildError with the compiler's first complaint, also for wgmma that ptxas serialises,
    for setmaxnreg that it ignores and for registers that do not suffice; such failures are cached
    as well. Raises TargetError
    when nvcc does not work here, EnvironmentFault without disk or memory for it, and CompilerDied
    when it crashes or is killed.
    """
    if cache_dir is None:
        return _compile(source, arch)
    key = "\n".join([source, arch, nvcc_version(), *FLAGS, *DEVICE_HEADERS.values()])
    entry = cache_dir / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.cubin"
    kept = read_entry(entry, key)
    if kept is not None:
        fields, cubin = unpack(kept)
        if "error" in fields:
            raise BuildError(fields["error"])
        return Cubin(cubin, **fields)
    try:
        compiled = _compile(source, arch)
    except BuildError as error:
        write_entry(entry, key, pack({"error": str(error)}, b""))
        raise
    fields = {"registers": compiled.registers, "spill_bytes": compiled.spill_bytes}
    write_entry(entry, key, pack(fields, compiled.cubin))
    return compiled


def _compile(source: str, arch: str) -> Cubin:
    """What nvcc makes of a source with what it needs of the headers here, or else all headers.

    Only the latter's complaint counts: another toolkit's device functions may need more, and so
    may a kernel.
    """
    try:
        code, report, cubin = run_nvcc(source, arch, needed_headers(source, arch))
        if code > 0 and not _BEHIND_HEADERS.search(report):
            code, report, cubin = run_nvcc(source, arch, {})
    except OSError as error:
        raise EnvironmentFault(f"nvcc cannot be run: {error.strerror or error}") from error
    if code:
        raise _failure(code, report)
    fatal = next((line for line in report.splitlines() if _FATAL.search(line)), None)
    if fatal:
        raise BuildError(f"ptxas: {fatal.strip()[:300]}")
    return Cubin(
        cubin=cubin,
        registers=max(map(int, _REGISTERS.findall(report)), default=0),
        spill_bytes=max(map(int, _SPILLS.findall(report)), default=0),
    )


def run_nvcc(source: str, arch: str, headers: Mapping[str, str]) -> tuple[int, str, bytes]:
    """nvcc's exit code, what it printed, and the machine code if the code is zero.

    headers are found by name before the toolkit's. Raises OSError where nvcc cannot be run.
    """
    # Named relative to the folder, so that reports hold nothing of its path.
    arguments = [*FLAGS, _architecture(arch), "-o", "kernel.cubin", "kernel.cu"]
    with scratch_folder() as folder:
        done = _run(folder, arguments, {"kernel.cu": source, **headers})
        cubin = b"" if done.returncode else (folder / "kernel.cubin").read_bytes()
    return done.returncode, done.stdout + done.stderr, cubin


def needed_headers(source: str, arch: str) -> Mapping[str, str]:
    """What a source needs of DEVICE_HEADERS, by name; all of them where that cannot be told.

    A source that includes others, as TVM's for bfloat16 buffers does, needs the toolkit's own: the
    others name functions of the host's library.

    Raises EnvironmentFault when the temporary directory cannot be written.
    """
    if not includes_no_others(source):
        return {}
    try:
        return headers_of(_declarations(find_nvcc(), arch).needed(source))
    except (OSError, subprocess.SubprocessError):
        return DEVICE_HEADERS  # the compiler's failure is told when it compiles


@functools.cache
def _declarations(nvcc: str, arch: str) -> Declarations:
    """Those of DEVICE_HEADERS, which an nvcc preprocesses for an arch.

    Raises OSError or SubprocessError where it does not.
    """
    arguments = ["-std=c++17", "-I.", _architecture(arch), "-E", "-Xcompiler", "-dD", "kernel.cu"]
    source = "".join(f"#include <{name}>\n" for name in DEVICE_HEADERS)
    with scratch_folder() as folder:
        done = _run(folder, arguments, {"kernel.cu": source, **DEVICE_HEADERS})
    done.check_returncode()
    return Declarations(done.stdout)


def _architecture(arch: str) -> str:
    number = arch.removeprefix("sm_")
    return f"-gencode=arch=compute_{number},code=sm_{number}"


def _run(
    folder: Path, arguments: Sequence[str], files: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """nvcc in a folder that holds files."""
    for name, text in files.items():
        (folder / name).write_text(text)
    # nvcc's own files lie there too, so that none outlives a killed nvcc.
    return subprocess.run(
        [find_nvcc(), *arguments], cwd=folder, env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip


def _failure(code: int, report: str) -> AutoqError:
    """What an exit code and what nvcc printed mean."""
    lines = [line for line in report.splitlines() if "error" in line.lower()]
    complaint = f"nvcc failed: {(lines or report.splitlines() or ['no output'])[0][:300]}"
    died = _DIED.search(report)
    number = -code if code < 0 else int(died[1]) if died else 0
    if number:
        return CompilerDied(f"nvcc died of signal {number}: {complaint}", from_outside(number))
    if machines_fault(report):
        said = next(line for line in report.splitlines() if machines_fault(line))
        return EnvironmentFault(f"nvcc failed: {said.strip()[:300]}")
    # No host compiler: not the source's fault.
    return BuildError(complaint) if _SOURCE_ERROR.search(report) else TargetError(complaint)
