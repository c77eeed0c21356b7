"""From the target that a user names to the device that is there."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, replace
from pathlib import Path

from autoq.errors import TargetError
from autoq.hardware_file import read_hardware
from autoq.runtime.cpu.features import require_no_gpu
from autoq.runtime.cuda.driver import Device, device_count, driver_version
from autoq.templates.target import Target, parse_target


@dataclass(frozen=True)
class Host:
    """A target, and the device on this machine that runs it.

    device is the name records carry, None when compiling for a device that is not here;
    driver is the CUDA version the driver supports, empty without one.
    """

    target: Target
    device: str | None
    driver: str = ""


def resolve(text: str, ordinal: int = 0, hardware: str | os.PathLike[str] | None = None) -> Host:
    """The host of a target such as "cuda", "cuda:sm_80", "cpu" or "auto".

    "auto" is a CUDA GPU where there is one, else the CPU. "cuda" takes the arch of GPU `ordinal`
    where there is one. hardware is a file with the figures of a user's own GPU
    (`hardware_file.read_hardware`). What the driver knows of a GPU that is here goes before autoq's
    own row; a file that contradicts it is refused.

    Raises TargetError for an unknown target, a GPU nobody supports, a number of a GPU beside the
    CPU or a file of another GPU, InputError for a file that is no row.
    """
    if not isinstance(text, str):
        raise TargetError(f"unknown target {text!r:.80}: give its name, such as 'cpu' or 'cuda'")
    row = None if hardware is None else read_hardware(hardware)
    if text == "auto":
        text = "cuda" if device_count() else "cpu"
    if not text.startswith("cuda"):
        target = parse_target(text, row)
        require_no_gpu(ordinal)
        return Host(target, cpu_name())
    if not device_count():
        return Host(parse_target(text, row), None)
    device = Device(ordinal)
    target = parse_target(f"cuda:{device.arch}" if text == "cuda" else text, row)
    if target.arch != device.arch:
        return Host(target, None)
    return Host(_as_found(target, device), device.name, driver_version())


def _as_found(target: Target, device: Device) -> Target:
    """The target with what the driver knows of its device."""
    units, l2_bytes = device.multiprocessors, device.l2_bytes
    if target.source:
        if target.units != units:
            raise TargetError(
                f"{target.source}: units is {target.units}, but GPU {device.ordinal} "
                f"({device.name}) has {units} multiprocessors"
            )
        l2_bytes = target.l2_bytes or l2_bytes
    return replace(target.of_units(units), smem_bytes=device.smem_bytes, l2_bytes=l2_bytes)


def require_device(host: Host) -> None:
    """Raise TargetError when the target's device is not on this machine."""
    if host.device is None:
        here = f"GPU 0 is {Device(0).arch}" if device_count() else "this machine has no CUDA GPU"
        raise TargetError(
            f"target cuda:{host.target.arch} has no device here ({here}); tune on a machine that "
            "has it, or choose --target cpu"
        )


def cpu_name() -> str:
    """Model name of this host's CPU."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
