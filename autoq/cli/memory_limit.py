"""A limit on memory (`ulimit -v`) that is too small, said before a library runs into it.

Libraries that cannot be loaded for want of memory raise what they like, end the process or hang;
under such a limit they are therefore loaded in a process of their own first.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys

from autoq.errors import EnvironmentFault

# What each verb loads before it does anything.
_MODULES = {
    "quantize": "autoq.quantization.quantize",
    "tune": "autoq.tuner, autoq.frontend, autoq.graph",
    "gemm": "autoq.tuner",
    "record": "autoq.recorder",
    "compile": "autoq.compilation.compiler",
    "run": "autoq.session, autoq.runtime.cpu.executor",
    "logs": "autoq.records",
    "env": "autoq.kernel.nvcc",
}
# What is to be left over then, and how long loading may take on a slow disk.
_SPARE_BYTES, _LOAD_SECONDS = 128 << 20, 60.0


def require_memory(verb: str | None) -> None:
    """Raise EnvironmentFault when the limit on the address space does not let a verb start."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    modules = _MODULES.get(verb or "")
    if limit == resource.RLIM_INFINITY or modules is None or _starts(modules):
        return
    raise EnvironmentFault(
        f"{verb}: the limit of {limit >> 20} MiB on memory (ulimit -v) is too small to load what "
        "it needs; raise it, or lift it with ulimit -v unlimited"
    )


def _starts(modules: str) -> bool:
    code = f"import mmap, {modules}; mmap.mmap(-1, {_SPARE_BYTES})"
    path = os.pathsep.join(filter(None, sys.path))
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_LOAD_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
