"""Which CPU a benchmark ran on."""

from __future__ import annotations

from pathlib import Path

from autoq.runtime.cpu.features import host_features
from autoq.templates.target import host_cpu


def cpu_in_words() -> str:
    """The CPU in words."""
    target = host_cpu()
    vnni = ", AVX512-VNNI" if "avx512_vnni" in host_features() else ""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{names[0] if names else 'CPU'} ({target.arch}{vnni}), {target.units} cores"
