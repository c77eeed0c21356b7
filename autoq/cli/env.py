"""`autoq env`: versions and devices, to paste into an issue."""

from __future__ import annotations

import importlib.metadata
import os
import platform

import typer

from autoq.cli.options import kernel_cache

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


def env() -> None:
    """Print versions, devices and paths."""
    for name, value in facts():
        typer.echo(f"{name + ':':24}{value}")


def facts() -> list[tuple[str, str]]:
    """What `autoq env` prints, as pairs."""
    from autoq.devices import cpu_name
    from autoq.errors import TargetError
    from autoq.kernel.nvcc import find_nvcc, nvcc_version
    from autoq.runtime.cuda_driver import Device, device_count, driver_version
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
    rows.append(("cuda driver", driver_version() if device_count() else "no CUDA GPU"))
    try:
        rows.append(("nvcc", f"{nvcc_version()} at {find_nvcc()}"))
    except TargetError:
        rows.append(("nvcc", "not found"))
    rows.append(("kernel cache", str(kernel_cache())))
    return rows
