"""Kernels as JSON values beside their machine code, for artifacts and for the kernel cache."""

from __future__ import annotations

import dataclasses
from typing import Any

from autoq.runtime.kernel import CpuKernel, CudaKernel, Kernel
from autoq.runtime.strict_json import decode


def kernel_to_json(kernel: Kernel) -> dict[str, Any]:
    """All of a kernel but its machine code, as JSON values."""
    parameters = [dataclasses.asdict(parameter) for parameter in kernel.parameters]
    if isinstance(kernel, CpuKernel):
        return {"kind": "cpu", "symbol": kernel.symbol, "parameters": parameters}
    launches = []
    for launch in kernel.launches:
        item = {field.name: getattr(launch, field.name) for field in dataclasses.fields(launch)}
        item["arguments"] = [
            {"type": type(argument).__name__, **dataclasses.asdict(argument)}
            for argument in launch.arguments
        ]
        launches.append(item)
    return {
        "kind": "cuda",
        "launches": launches,
        "parameters": parameters,
        "workspaces": list(kernel.workspaces),
        "registers": kernel.registers,
        "spill_bytes": kernel.spill_bytes,
    }


def kernel_from_json(data: Any, code: bytes) -> Kernel:
    """The kernel that `kernel_to_json` described, with its machine code.

    Raises ValueError for anything else; whether its numbers make sense is `kernel_check`'s.
    """
    fields = dict(data) if isinstance(data, dict) else {}
    kind = fields.pop("kind", None)
    if kind == "cpu":
        return decode(CpuKernel, fields, "kernel", object=code)
    if kind == "cuda":
        return decode(CudaKernel, fields, "kernel", cubin=code)
    raise ValueError("a kernel that is neither of the CPU nor of CUDA")
