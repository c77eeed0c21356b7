"""Programs to Kernels for a target: the only way that anything in autoq gets compiled."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autoq.kernel.host_launches import host_launches
from autoq.kernel.lowering import Lowered, cuda_source, lower, object_code
from autoq.kernel.nvcc import Cubin, compile_cuda
from autoq.runtime.kernel import (
    Argument,
    CpuKernel,
    CudaKernel,
    FunctionCall,
    Kernel,
    Launch,
    Parameter,
    Scalar,
    Workspace,
)
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.program import Program
from autoq.templates.target import Target

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc


def compile_kernel(prim_func: PrimFunc, target: Target, *, cache_dir: Path | None = None) -> Kernel:
    """Machine code for `prim_func` on `target`, whose parameters are the kernel's.

    A function with the attribute `s_tir` goes through TVM's schedulable pipeline, any other
    through the TIRx pipeline. cache_dir keeps machine code by the hash of its source; None
    compiles anew. Raises BuildError when the function cannot be lowered or compiled (spills do
    not raise: the kernel reports them), TargetError without nvcc.
    """
    parameters = tuple(
        Parameter(tuple(int(extent) for extent in buffer.shape), str(buffer.dtype))
        for buffer in prim_func.params
    )
    stage = _Stage(prim_func, tuple(range(len(parameters))))
    return _compiled([stage], parameters, (), target, cache_dir)


def compile_program(
    program: Program, arrays: Sequence[TensorSpec], target: Target, *, cache_dir: Path | None = None
) -> Kernel:
    """Machine code for the stages of a program; each of them is kept as in `compile_kernel`.

    arrays: inputs, constants and outputs, which are the kernel's parameters in this order.
    """
    spaces = program.workspaces
    names = [spec.name for spec in (*arrays, *(item.spec for item in spaces))]
    numbers = {name: number for number, name in enumerate(names)}
    stages = [
        _Stage(stage.function, tuple(numbers[name] for name in stage.parameters))
        for stage in program.stages
    ]
    workspaces = tuple(
        Workspace(item.spec.name, *item.spec.stored, item.initially.value) for item in spaces
    )
    parameters = tuple(Parameter(*spec.stored) for spec in arrays)
    return _compiled(stages, parameters, workspaces, target, cache_dir)


@dataclass(frozen=True)
class _Stage:
    """A function, and the kernel's buffers that are its parameters."""

    function: PrimFunc
    buffers: tuple[int, ...]


def _compiled(
    stages: Sequence[_Stage],
    parameters: tuple[Parameter, ...],
    workspaces: tuple[Workspace, ...],
    target: Target,
    cache_dir: Path | None,
) -> Kernel:
    lowered = [lower(stage.function, target) for stage in stages]
    if target.kind == "cpu":
        objects = [object_code(item, target, cache_dir) for item in lowered]
        distinct = list(dict.fromkeys(objects))
        calls = [
            FunctionCall("main", stage.buffers, distinct.index(code))
            for stage, code in zip(stages, objects, strict=True)
        ]
        return CpuKernel(tuple(distinct), tuple(calls), parameters, workspaces)
    cubins = [compile_cuda(cuda_source(item, target), target.arch, cache_dir) for item in lowered]
    launches: list[Launch] = []
    distinct = list(dict.fromkeys(cubin.cubin for cubin in cubins))
    for stage, item, cubin in zip(stages, lowered, cubins, strict=True):
        start = len(parameters) + len(workspaces)
        found, own = _launches(stage, item, start, distinct.index(cubin.cubin))
        launches += found
        workspaces += own
    return CudaKernel(
        modules=tuple(distinct),
        launches=tuple(launches),
        parameters=parameters,
        workspaces=workspaces,
        registers=_most(cubins, "registers"),
        spill_bytes=_most(cubins, "spill_bytes"),
    )


def _launches(
    stage: _Stage, lowered: Lowered, start: int, module: int
) -> tuple[list[Launch], tuple[Workspace, ...]]:
    """A stage's launches over the kernel's buffers, and its own workspaces, from `start` on."""
    launches, sizes = host_launches(lowered.host["main"], len(stage.buffers))
    buffers = (*stage.buffers, *range(start, start + len(sizes)))

    def moved(argument: Argument) -> Argument:
        if isinstance(argument, Scalar):
            return argument
        return dataclasses.replace(argument, index=buffers[argument.index])

    found = [
        dataclasses.replace(launch, arguments=tuple(map(moved, launch.arguments)), module=module)
        for launch in launches
    ]
    own = (Workspace(f"buffer {start + i}", (size,), "uint8") for i, size in enumerate(sizes))
    return found, tuple(own)


def _most(cubins: Sequence[Cubin], figure: str) -> int:
    return max(int(getattr(cubin, figure)) for cubin in cubins)
