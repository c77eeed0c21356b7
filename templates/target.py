"""Targets: what a kernel is compiled for, as plain numbers that templates may ask for."""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping
from dataclasses import dataclass

from autoq.errors import TargetError
from autoq.templates.storage import is_four_bit


@dataclass(frozen=True)
class Target:
    """A device to compile for.

    kind is "cuda" or "cpu". For CUDA, arch is e.g. "sm_90a"; for the CPU it is LLVM's CPU name.
    `units` counts multiprocessors or cores; smem_bytes is the shared memory of one block;
    vnni, avx512, avx2 and avx512vbmi are CPU features. Rates are for the roofline: operations or
    bytes a second, 0 where unknown.
    """

    kind: str
    arch: str
    units: int = 1
    smem_bytes: int = 0
    int8_rate: float = 0.0
    float32_rate: float = 0.0
    memory_rate: float = 0.0
    vnni: bool = False
    avx512: bool = False
    avx2: bool = False
    avx512vbmi: bool = False

    @property
    def compute_capability(self) -> int:
        """CUDA compute capability as an integer, 90 for sm_90a."""
        return int("".join(filter(str.isdigit, self.arch)))

    @property
    def has_wgmma(self) -> bool:
        return self.kind == "cuda" and self.arch == "sm_90a"

    @property
    def has_int4_mma(self) -> bool:
        """Whether tensor cores multiply 4-bit values, twice as fast as bytes; sm_90 gave it up."""
        return self.kind == "cuda" and 75 <= self.compute_capability < 90

    def roofline_seconds(self, operations: Mapping[str, int], bytes: int) -> float:
        """Least time of operations by dtype and of bytes moved; 0 where rates are unknown."""
        rates = {dtype: self._rate(dtype) for dtype in operations}
        seconds = sum(count / rates[dtype] for dtype, count in operations.items() if rates[dtype])
        return max(seconds, bytes / self.memory_rate if self.memory_rate else 0.0)

    def _rate(self, dtype: str) -> float:
        """Operations a second over values of a dtype; 0 where unknown."""
        rate = self.float32_rate if dtype == "float32" else self.int8_rate
        return rate * 2 if is_four_bit(dtype) and self.has_int4_mma else rate


# Dense int8 tensor rate, float32 rate and memory rate of the datasheets; shared memory a block.
_CUDA = {
    "sm_75": Target("cuda", "sm_75", 40, 64 << 10, 130e12, 8.1e12, 0.32e12),
    "sm_80": Target("cuda", "sm_80", 108, 163 << 10, 624e12, 19.5e12, 1.9e12),
    "sm_86": Target("cuda", "sm_86", 84, 99 << 10, 284e12, 35e12, 0.9e12),
    "sm_89": Target("cuda", "sm_89", 142, 99 << 10, 660e12, 82e12, 0.96e12),
    # H200: measured copy rate, datasheet int8 rate.
    "sm_90a": Target("cuda", "sm_90a", 132, 232448, 1979e12, 67e12, 4.3e12),
}


def parse_target(text: str) -> Target:
    """The target that a command line names: "cpu", "llvm", "cuda" (sm_90a) or "cuda:sm_80".

    "cuda" alone means the GPU of this host where there is one; callers that know the device pass
    its arch. Raises TargetError for anything else.
    """
    kind, _, arch = text.partition(":")
    if kind in ("cpu", "llvm") and not arch:
        return host_cpu()
    if kind == "cuda":
        arch = {"sm_90": "sm_90a", "": "sm_90a"}.get(arch, arch)
        if arch in _CUDA:
            return _CUDA[arch]
    known = ", ".join(["cpu", "cuda", *(f"cuda:{name}" for name in _CUDA)])
    raise TargetError(f"unknown target {text!r}; known targets are {known}")


@functools.cache
def host_cpu() -> Target:
    """This host's CPU, its features read through LLVM."""
    import os

    import tvm

    if platform.machine() not in ("x86_64", "AMD64", "aarch64", "arm64"):
        raise TargetError(f"no CPU target for machine {platform.machine()!r}")
    cpu = _llvm_cpu_name()
    features = _llvm_features(tvm.target.Target({"kind": "llvm", "mcpu": cpu}))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Target(
        "cpu",
        cpu,
        units=cores or 1,
        vnni="avx512vnni" in features,
        avx512="avx512bw" in features,
        avx2="avx2" in features,
        avx512vbmi="avx512vbmi" in features,
    )


def _llvm_cpu_name() -> str:
    import tvm_ffi

    return str(tvm_ffi.get_global_func("target.llvm_get_system_cpu")())


def _llvm_features(target: object) -> frozenset[str]:
    import tvm_ffi

    features = tvm_ffi.get_global_func("target.llvm_get_cpu_features")(target)
    return frozenset(str(name) for name in features)
