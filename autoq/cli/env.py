"""`autoq env`: versions and devices, to paste into an issue."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

import typer

from autoq.cli.options import Hardware, kernel_cache

PACKAGES = (
    "autoq",
    "apache-tvm",
    "apache-tvm-ffi",
    "apache-tvm-ffi-orcjit",
    "numpy",
    "onnx",
    "onnxruntime",
    "xgboost-cpu",
)


def env(hardware: Hardware = None) -> None:
    """Print versions, devices, hardware figures and paths."""
    for name, value in facts(hardware):
        typer.echo(f"{name + ':':24}{value}")


def facts(hardware: Path | None = None) -> list[tuple[str, str]]:
    """What `autoq env` prints, as pairs."""
    from autoq.devices import cpu_name, resolve
    from autoq.errors import TargetError
    from autoq.kernel.nvcc import find_nvcc, nvcc_version
    from autoq.report.hardware import hardware_lines
    from autoq.runtime.cuda.driver import Device, device_count, driver_version
    from autoq.templates.target import host_cpu

    rows = [("platform", platform.platform()), ("python", platform.python_version())]
    for package in PACKAGES:
        try:
            rows.append((package, importlib.metadata.version(package)))
        except importlib.metadata.PackageNotFoundError:
            rows.append((package, "not installed"))
    host = host_cpu()
    features = [name for name in ("avx2", "avx512", "vnni", "avx512vbmi") if getattr(host, name)]
    rows.append(("cpu", f"{cpu_name()} ({host.arch}, {os.cpu_count()} cores)"))
    rows.append(("cpu features", " ".join(features) or "none that autoq uses"))
    for ordinal in range(device_count()):
        device = Device(ordinal)
        rows.append((f"gpu {ordinal}", f"{device.name} ({device.arch})"))
        if hardware is None:
            rows += _row_of(ordinal)
    if hardware is not None or not device_count():
        rows += hardware_lines(resolve("cuda", hardware=hardware).target)
    rows.append(("cuda driver", driver_version() if device_count() else "no CUDA GPU"))
    try:
        rows.append(("nvcc", f"{nvcc_version()} at {find_nvcc()}"))
    except TargetError:
        rows.append(("nvcc", "not found"))
    rows.append(("kernel cache", str(kernel_cache())))
    return rows


def _row_of(ordinal: int) -> list[tuple[str, str]]:
    """What is known of a GPU's hardware, or that autoq knows no such GPU."""
    from autoq.devices import resolve
    from autoq.errors import TargetError
    from autoq.report.hardware import hardware_lines

    try:
        return hardware_lines(resolve("cuda", ordinal).target)
    except TargetError as error:
        return [("hardware", str(error))]
