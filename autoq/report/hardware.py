"""The row of hardware figures that is in use, in words."""

from __future__ import annotations

from autoq.templates.hardware import lacks
from autoq.templates.target import Target

_RATES = ("int4", "int8", "float16", "bfloat16", "e4m3", "float32")


def hardware_lines(target: Target) -> list[tuple[str, str]]:
    """Names and values of what is known of a CUDA target's hardware; says what is unknown."""
    source = f"from {target.source}" if target.source else "autoq's own row"
    units = f"{target.units} at {_known(target.clock_hz / 1e9, 'GHz')}"
    if target.clustered_units:
        units += f", {target.clustered_units} of them in clusters of 4 or 8"
    rates = {name: getattr(target, f"{name}_rate") for name in _RATES}
    peaks = [
        f"{name} {_known(rate / 1e12, '')}"
        for name, rate in rates.items()
        if not lacks(target.arch, f"{name}_rate")
    ]
    if not lacks(target.arch, "sparse_factor"):
        peaks.append(f"2:4 sparse times {target.sparse_factor:g}")
    return [
        ("hardware", f"{target.arch}, {target.product} ({source})"),
        ("  multiprocessors", units),
        ("  each holds", f"{target.register_file} registers, {target.thread_registers} a thread; "
                         f"{target.unit_threads} threads in {target.unit_blocks} blocks"),
        ("  shared memory", f"{target.unit_smem_bytes} bytes, of which a block has at most "
                            f"{target.smem_bytes} and {target.reserved_smem_bytes} reserved"),
        ("  L2 cache", _known(target.l2_bytes / 2**20, "MiB")),
        ("  device memory", _known(target.memory_rate / 1e12, "TB/s")),
        ("  one more launch", _known(target.launch_seconds * 1e6, "us")),
        ("  tera-ops a second", ", ".join(peaks)),
    ]  # fmt: skip


def _known(value: float, unit: str) -> str:
    return f"{value:.4g} {unit}".rstrip() if value else "unknown"
