"""A small artifact for either target whose machine code is none, and how to change one by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from autoq.runtime.artifact import Artifact
from autoq.runtime.kernel import (
    Buffer,
    CpuKernel,
    CudaKernel,
    FunctionCall,
    Im2colMap,
    Kernel,
    Launch,
    Parameter,
    Scalar,
    TiledMap,
    Workspace,
)
from autoq.runtime.members import open_members, write_members
from autoq.runtime.plan import Call, Plan, Port, Slot

LAUNCH = Launch(
    "main_kernel", (4, 5, 6), (128, 1, 1), (2, 1, 1), 4096,
    (
        Buffer(1),
        Buffer(3),
        Scalar(7, "int32"),
        TiledMap(0, "int8", (16, 8), (16,), (16, 8), (1, 1), 0, 3, 2, 0),
        Im2colMap(0, "int8", (16, 8, 4, 1), (16, 128, 512), (-1, -1), (-1, -1), 16, 64,
                  (1, 1, 1, 1), 2),
    ),
    programmatic=True,
)  # fmt: skip


def artifact(kind: str = "cuda") -> Artifact:
    """x [1, 512] -> a -> b -> y [1, 512] of int8, two calls of one kernel and one of another.

    `a` and `y` lie at the same place; each kernel takes 64 float32 constants and a workspace like
    an activation, in two modules.
    """
    names = ("x", "a", "b", "y")
    slots = dict(zip(names, (activation(offset) for offset in (0, 512, 1024, 512)), strict=True))
    scales = (Slot("constant", 0, (64,), "float32"), Slot("constant", 256, (64,), "float32"))
    calls = ((0, "x", scales[0], "a"), (1, "a", scales[1], "b"), (0, "b", scales[0], "y"))
    calls = tuple(
        Call(kernel, (slots[source], scale), (slots[target],), (activation(1536),), target,
             "N1 3x3", "t", "default", 10, 20, 1e-6)
        for kernel, source, scale, target in calls
    )  # fmt: skip
    plan = Plan(
        model="net", target_kind=kind, arch="sm_90a", cpu_features=(),
        inputs=(Port("x", slots["x"]),), outputs=(Port("y", slots["y"]),),
        arena_bytes=2048, constant_bytes=512, calls=calls,
    )  # fmt: skip
    constants = np.resize(np.arange(256, dtype=np.uint8), 512)
    return Artifact(plan, (_kernel(kind, b"first"), _kernel(kind, b"second")), constants)


def activation(offset: int) -> Slot:
    """An int8 array of the arena as the kernels take it."""
    return Slot("arena", offset, (1, 512), "int8")


def _kernel(kind: str, code: bytes) -> Kernel:
    arrays = (((1, 512), "int8"), ((64,), "float32"), ((1, 512), "int8"))
    parameters = tuple(Parameter(*array) for array in arrays)
    modules, spaces = (code, code + b" more"), (Workspace("sums", (1, 512), "int8"),)
    if kind == "cpu":
        calls = (FunctionCall("main", (0, 1, 3)), FunctionCall("main", (3, 2), 1))
        return CpuKernel(modules, calls, parameters, spaces)
    launches = (LAUNCH, Launch("main_kernel", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, (), module=1))
    return CudaKernel(modules, launches, parameters, spaces, 100, 8)


def blocks_of(path: Path) -> dict[str, bytes]:
    """The members of an artifact."""
    with open_members(path) as reader:
        return {item.name: reader.read(item.name, item.bytes) for item in reader.members}


def rewrite_manifest(source: Path, target: Path, change: Callable[[Any], object]) -> None:
    """Write an artifact again with its manifest changed and all digests right."""
    blocks = blocks_of(source)
    manifest = json.loads(blocks["manifest.json"])
    change(manifest)
    write_members(target, {**blocks, "manifest.json": json.dumps(manifest).encode()})
