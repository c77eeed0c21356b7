"""The interpreter as a library, compiled once for each state of its source and machine."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import os
import platform
import shutil
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).parent / "interpreter"
_CACHE = Path(__file__).parents[2] / ".pytest_cache" / "ptx"
_FLAGS = (
    "-std=c++20", "-O2", "-march=native", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing",
    "-fno-math-errno", "-Wall", "-shared", "-fPIC",
)  # fmt: skip


class Range(ctypes.Structure):
    """Bytes that a launch may access."""

    _fields_ = [
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("writable", ctypes.c_int64),
        ("early", ctypes.c_int64),
    ]


class TensorMap(ctypes.Structure):
    """A tensor map as the interpreter reads it: dims, box and the rest from the innermost."""

    _fields_ = [
        ("base", ctypes.c_uint64),
        *(
            (name, ctypes.c_int64)
            for name in ("rank", "element_bytes", "swizzle", "im2col", "fill")
        ),
        *(
            (name, ctypes.c_int64 * 5)
            for name in ("dims", "strides", "box", "steps", "lower", "upper")
        ),
        ("channels", ctypes.c_int64),
        ("pixels", ctypes.c_int64),
    ]


class Settings(ctypes.Structure):
    """How a launch is made: extents, memory, and whether asynchronous operations come late."""

    _fields_ = [
        *((name, ctypes.c_int32 * 3) for name in ("grid", "block", "cluster")),
        *(
            (name, ctypes.c_int32)
            for name in (
                "shared_bytes", "local_bytes", "late", "seed", "residents", "registers",
                "predicates", "programmatic", "proxies",
            )
        ),
    ]  # fmt: skip


class Input(ctypes.Structure):
    """A launch, and what came of it."""

    _fields_ = [
        *(
            field
            for name in (
                "code", "operands", "constants", "specials", "parameters", "ranges", "maps",
            )
            for field in ((name, ctypes.c_void_p), (f"{name}_count", ctypes.c_int64))
        ),
        ("settings", Settings),
        ("executed", ctypes.c_int64),
        ("fault_at", ctypes.c_int32),
        ("fault_warp", ctypes.c_int32),
        ("fault_block", ctypes.c_int32 * 3),
        ("message", ctypes.c_char * 4096),
    ]  # fmt: skip


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled interpreter; raises RuntimeError with the compiler's report."""
    compiler = next(filter(None, map(shutil.which, ("g++", "clang++"))), None)
    if compiler is None:
        raise RuntimeError("no C++ compiler to build the emulator with")
    sources = sorted(_SOURCE.iterdir())
    parts = [compiler, *_FLAGS, _processor(), *(path.read_text() for path in sources)]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]
    built = _CACHE / f"interpreter-{digest}.so"
    _CACHE.mkdir(parents=True, exist_ok=True)
    # Test processes that start together wait for the one that compiles.
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            _compile(compiler, built)
    loaded = ctypes.CDLL(str(built))
    loaded.ptx_run.argtypes = [ctypes.POINTER(Input)]
    return loaded


def _compile(compiler: str, built: Path) -> None:
    for older in _CACHE.glob("interpreter-*.so"):
        older.unlink()
    draft = built.with_suffix(f".{os.getpid()}")
    command = [compiler, *_FLAGS, "-o", str(draft), str(_SOURCE / "interpreter.cc")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[:4000])
    draft.rename(built)


def _processor() -> str:
    """What -march=native means here."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith("flags")), "")


@functools.cache
def handlers() -> dict[str, int]:
    """Numbers of the interpreter's instructions by name."""
    text = ctypes.create_string_buffer(1 << 16)
    if library().ptx_names(text, len(text)):
        raise RuntimeError("the interpreter has more names than fit")
    return {name: number for number, name in enumerate(text.value.decode().split())}
