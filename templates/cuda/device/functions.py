"""CUDA helpers of a kernel: their source, and a name that tells different ones apart."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceFunction:
    """A CUDA helper: its content-hashed name and the source that defines it."""

    name: str
    source: str


def device_function(name: str, source: str) -> DeviceFunction:
    """A helper whose `@` become a hash of the source: equal names then mean equal text."""
    tag = hashlib.sha256(source.encode()).hexdigest()[:10]
    return DeviceFunction(f"{name}_{tag}", source.replace("@", tag))
