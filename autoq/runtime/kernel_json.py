"""Kernels as JSON values beside their machine code, for artifacts and for the kernel cache."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from autoq.runtime.kernel import (
    Argument,
    Buffer,
    CpuKernel,
    CudaKernel,
    Im2colMap,
    Kernel,
    Launch,
    Scalar,
    TiledMap,
)

_ARGUMENTS: dict[str, type[Any]] = {
    cls.__name__: cls for cls in (Buffer, Scalar, TiledMap, Im2colMap)
}


def kernel_to_json(kernel: Kernel) -> dict[str, Any]:
    """All of a kernel but its machine code, as JSON values."""
    if isinstance(kernel, CpuKernel):
        return {"kind": "cpu", "symbol": kernel.symbol, "parameters": kernel.parameters}
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
        "parameters": kernel.parameters,
        "workspaces": list(kernel.workspaces),
        "registers": kernel.registers,
        "spill_bytes": kernel.spill_bytes,
    }


def kernel_from_json(data: dict[str, Any], code: bytes) -> Kernel:
    """The kernel that `kernel_to_json` described, with its machine code.

    Raises KeyError, TypeError or ValueError for anything else.
    """
    fields = dict(data)
    if fields.pop("kind") == "cpu":
        return CpuKernel(object=code, **fields)
    fields["launches"] = tuple(
        Launch(**{**_tuples(item), "arguments": tuple(map(_argument, item["arguments"]))})
        for item in data["launches"]
    )
    fields["workspaces"] = tuple(data["workspaces"])
    return CudaKernel(cubin=code, **fields)


def _argument(data: dict[str, Any]) -> Argument:
    fields = _tuples(data)
    return _ARGUMENTS[fields.pop("type")](**fields)


def _tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, Sequence) and not isinstance(v, str) else v
            for key, v in data.items()}  # fmt: skip
