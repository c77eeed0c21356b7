"""One PrimFunc to one Kernel for a target: the only way that anything in autoq gets compiled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from autoq.kernel.host_launches import host_launches
from autoq.kernel.lowering import cuda_source, lower, object_code
from autoq.kernel.nvcc import compile_cuda
from autoq.runtime.kernel import CpuKernel, CudaKernel, Kernel, Parameter
from autoq.templates.target import Target

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc


def compile_kernel(prim_func: PrimFunc, target: Target, *, cache_dir: Path | None = None) -> Kernel:
    """Machine code for `prim_func` on `target`.

    A function with the attribute `s_tir` goes through TVM's schedulable pipeline, any other
    through the TIRx pipeline. cache_dir keeps machine code by the hash of its source; None
    compiles anew. Raises BuildError when the function cannot be lowered or compiled (spills do
    not raise: the kernel reports them), TargetError without nvcc.
    """
    lowered = lower(prim_func, target)
    parameters = _parameters(prim_func)
    if target.kind == "cpu":
        code = object_code(lowered, target, cache_dir)
        return CpuKernel(object=code, symbol="main", parameters=parameters)
    launches, workspaces = host_launches(lowered.host["main"], len(parameters))
    compiled = compile_cuda(cuda_source(lowered, target), target.arch, cache_dir)
    return CudaKernel(
        cubin=compiled.cubin,
        launches=launches,
        parameters=parameters,
        workspaces=workspaces,
        registers=compiled.registers,
        spill_bytes=compiled.spill_bytes,
    )


def _parameters(prim_func: PrimFunc) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(tuple(int(extent) for extent in buffer.shape), str(buffer.dtype))
        for buffer in prim_func.params
    )
