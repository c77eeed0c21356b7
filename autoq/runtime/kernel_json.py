"""Kernels as JSON values beside their machine code, for artifacts and for the kernel cache."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from autoq.runtime.kernel import CpuKernel, CudaKernel, Kernel
from autoq.runtime.strict_json import decode


def machine_code(kernel: Kernel) -> bytes:
    """The cubins or ELF objects, one behind the other."""
    return b"".join(kernel.modules)


def kernel_to_json(kernel: Kernel) -> dict[str, Any]:
    """All of a kernel but its machine code, as JSON values."""
    fields = dataclasses.asdict(dataclasses.replace(kernel, modules=()))
    fields["modules"] = [len(module) for module in kernel.modules]
    if isinstance(kernel, CpuKernel):
        return {"kind": "cpu", **fields}
    for launch, described in zip(kernel.launches, fields["launches"], strict=True):
        described["arguments"] = [
            {"type": type(argument).__name__, **dataclasses.asdict(argument)}
            for argument in launch.arguments
        ]
    return {"kind": "cuda", **fields}


def kernel_from_json(data: Any, code: bytes | None) -> Kernel:
    """The kernel that `kernel_to_json` described, with its `machine_code`; None leaves it empty.

    Raises ValueError for anything else; whether its numbers make sense is `kernel_check`'s.
    """
    fields = dict(data) if isinstance(data, dict) else {}
    kind = fields.pop("kind", None)
    if kind not in ("cpu", "cuda"):
        raise ValueError("a kernel that is neither of the CPU nor of CUDA")
    sizes = decode(tuple[int, ...], fields.pop("modules", None), "kernel.modules")
    modules = _cut(code, sizes)
    return decode(CpuKernel if kind == "cpu" else CudaKernel, fields, "kernel", modules=modules)


def _cut(code: bytes | None, sizes: tuple[int, ...]) -> tuple[bytes, ...]:
    """Machine code in parts of these sizes."""
    if min(sizes, default=0) < 0:
        raise ValueError("kernel.modules: a size below zero")
    if code is None:
        return (b"",) * len(sizes)
    if len(code) != sum(sizes):
        raise ValueError(f"{len(code)} bytes of machine code for modules of {sum(sizes)}")
    bounds = itertools.pairwise(itertools.accumulate(sizes, initial=0))
    return tuple(code[start:stop] for start, stop in bounds)
