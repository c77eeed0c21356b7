"""Targets: what a kernel is compiled for, as plain numbers that templates may ask for."""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping
from dataclasses import dataclass

from autoq.errors import TargetError
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.hardware import HARDWARE, Hardware

_RATES = {
    "int4": "int4_rate", "uint4": "int4_rate", "int8": "int8_rate", "uint8": "int8_rate",
    "float16": "float16_rate", "bfloat16": "bfloat16_rate", "float8_e4m3fn": "e4m3_rate",
    "float32": "float32_rate",
}  # fmt: skip


@dataclass(frozen=True)
class Target(Hardware):
    """A device to compile for: its name and its features, and the numbers of its `Hardware`.

    kind is "cuda" or "cpu". For CUDA, arch is e.g. "sm_90a"; for the CPU it is LLVM's CPU name.
    vnni, avx512, avx2 and avx512vbmi are CPU features.
    """

    kind: str
    arch: str
    vnni: bool = False
    avx512: bool = False
    avx2: bool = False
    avx512vbmi: bool = False

    @property
    def compute_capability(self) -> int:
        """CUDA compute capability as an integer, 90 for sm_90a; 0 for a CPU."""
        if self.kind != "cuda":
            return 0
        return int("".join(filter(str.isdigit, self.arch)))

    @property
    def has_wgmma(self) -> bool:
        return self.kind == "cuda" and self.arch == "sm_90a"

    @property
    def has_int4_mma(self) -> bool:
        """Whether tensor cores multiply 4-bit values, twice as fast as bytes; sm_90 gave it up."""
        return self.kind == "cuda" and 75 <= self.compute_capability < 90

    def rate(self, dtype: str, sparse: bool = False) -> float:
        """Peak operations a second of products of a dtype, 2:4 sparse ones counted as if dense.

        4-bit values are multiplied as bytes where tensor cores do not take them. 0 where the rate
        is unknown.
        """
        if is_four_bit(dtype) and not self.has_int4_mma:
            dtype = "int8"
        rate: float = getattr(self, _RATES[dtype]) if dtype in _RATES else 0.0
        return rate * self.sparse_factor if sparse else rate

    def roofline_seconds(self, operations: Mapping[str, int], bytes: int) -> float:
        """Least time of operations by dtype and of bytes moved.

        0 where a rate that it takes is unknown: a part of the truth would pass for the whole.
        """
        rates = {dtype: self.rate(dtype) for dtype, count in operations.items() if count}
        if not all(rates.values()) or (bytes and not self.memory_rate):
            return 0.0
        seconds = sum(operations[dtype] / rate for dtype, rate in rates.items())
        return max(seconds, bytes / self.memory_rate if bytes else 0.0)


def parse_target(text: str, hardware: tuple[str, Hardware] | None = None) -> Target:
    """The target that a command line names: "cpu", "llvm", "cuda" (sm_90a) or "cuda:sm_80".

    "cuda" alone means the GPU of this host where there is one; callers that know the device pass
    its arch. hardware is an architecture and the row of a user's own GPU of it, which then takes
    the place of the row in `HARDWARE`. Raises TargetError for any other text, and for a row of
    another architecture than the target's.
    """
    kind, _, arch = text.partition(":")
    own, row = hardware or ("", Hardware())
    if kind in ("cpu", "llvm") and not arch:
        if own:
            raise TargetError(
                f"{row.source}: describes a GPU, but the target is {text!r}; choose cuda:{own}"
            )
        return host_cpu()
    if kind == "cuda":
        arch = {"sm_90": "sm_90a", "": own or "sm_90a"}.get(arch, arch)
        if arch in HARDWARE:
            if own not in ("", arch):
                raise TargetError(f"{row.source}: is of {own}, but the target is cuda:{arch}")
            return Target("cuda", arch, **vars(row if own else HARDWARE[arch]))
    known = ", ".join(["cpu", "cuda", *(f"cuda:{name}" for name in HARDWARE)])
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
