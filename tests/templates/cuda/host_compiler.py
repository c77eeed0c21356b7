"""Kernels' C++ for this host: compiled by g++ or clang++, with headers that are compiled once."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

HEADERS = ("host_cuda.h", "host_warps.h")
"""What stands before a kernel: the first alone, or both."""
_FLAGS = ("-std=c++20", "-O0", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-fPIC",
          "-pthread")  # fmt: skip
_COMPILER = next(filter(None, map(shutil.which, ("g++", "clang++"))), None)

needs_host_compiler = pytest.mark.skipif(_COMPILER is None, reason="no C++ compiler on this host")


def compile_for_host(source: str, folder: Path, headers: int = 1) -> ctypes.CDLL:
    """The library of C++ behind the first `headers` of `HEADERS`."""
    file, library = folder / "kernel.cc", folder / "kernel.so"
    file.write_text(source)
    _run("-include", str(_header(headers)), "-shared", "-o", str(library), str(file))
    return ctypes.CDLL(str(library))


@functools.cache
def _header(headers: int) -> Path:
    """A file of the first `headers` of `HEADERS`, beside which g++ finds it compiled.

    It lies in a folder of this user's that outlives one test run: the standard library in it is
    most of what there is to compile in a kernel.
    """
    text = "".join((Path(__file__).parent / name).read_text() for name in HEADERS[:headers])
    version = subprocess.run([_COMPILER, "--version"], capture_output=True, check=True).stdout
    key = hashlib.sha256(version + " ".join(_FLAGS).encode() + text.encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"autoq-test-headers-{os.getuid()}-{key}"
    if not folder.exists():
        made = Path(tempfile.mkdtemp(prefix="autoq-test-headers-"))
        (made / "kernel.h").write_text(text)
        _run("-x", "c++-header", "-o", str(made / "kernel.h.gch"), str(made / "kernel.h"))
        try:
            made.rename(folder)
        except OSError:  # another process was first
            shutil.rmtree(made)
    return folder / "kernel.h"


def _run(*arguments: str) -> None:
    command = [_COMPILER, *_FLAGS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[:2000]
