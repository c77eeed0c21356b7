"""Crossovers of devices, measured once for each class of shapes and kept beside machine code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from autoq.cache import read_entry, write_entry
from autoq.devices import Host
from autoq.residual.crossover import default_crossover
from autoq.templates.operators.residual_gemm import ResidualGemm

_VERSION = 3
"""Raised when crossovers of kernels before it are no longer theirs."""


def crossover_of(
    workload: ResidualGemm,
    host: Host,
    cache_dir: Path | None,
    measure: Callable[[ResidualGemm, Host], float],
) -> float:
    """The share of a side's values above which it is corrected as a whole, on a device.

    That of workloads of about the same extents, each to a power of two, of as many bits: read from
    `cache_dir`, or measured and written there. Without a folder it is what is assumed of the
    target. Raises InputError when others could write to the folder.
    """
    if cache_dir is None:
        return default_crossover(host.target)
    extents = [extent.bit_length() for extent in (workload.m, workload.n, workload.k)]
    made_from = [_VERSION, host.device, host.target.arch, workload.bits, *extents]
    key = f"crossover {json.dumps(made_from)}"
    path = cache_dir / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.crossover"
    content = read_entry(path, key)
    if content is not None:
        return float(content)
    measured = measure(workload, host)
    write_entry(path, key, repr(measured).encode())
    return measured
