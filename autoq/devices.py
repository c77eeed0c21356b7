"""From the target that a user names to the device that is there."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from pathlib import Path

from autoq.errors import TargetError
from autoq.runtime.cuda_driver import Device, device_count, driver_version
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


def resolve(text: str, ordinal: int = 0) -> Host:
    """The host of a target such as "cuda", "cuda:sm_80", "cpu" or "auto".

    "auto" is a CUDA GPU where there is one, else the CPU. "cuda" takes the arch of GPU `ordinal`
    where there is one. Raises TargetError for an unknown target or a GPU nobody supports.
    """
    if text == "auto":
        text = "cuda" if device_count() else "cpu"
    if not text.startswith("cuda"):
        return Host(parse_target(text), cpu_name())
    if not device_count():
        return Host(parse_target(text), None)
    device = Device(ordinal)
    target = parse_target(f"cuda:{device.arch}" if text == "cuda" else text)
    if target.arch != device.arch:
        return Host(target, None)
    target = replace(target, units=device.multiprocessors, smem_bytes=device.smem_bytes)
    return Host(target, device.name, driver_version())


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
