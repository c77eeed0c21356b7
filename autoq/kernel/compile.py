"""One PrimFunc to one Kernel for a target: the only way that anything in autoq gets compiled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from autoq.kernel.host_launches import host_launches
from autoq.kernel.lowering import cuda_source, lower, object_code
from autoq.kernel.nvcc import compile_cuda
from autoq.runtime.kernel import CpuKernel, CudaKernel, Kernel
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
    if target.kind == "cpu":
        code = object_code(lowered, target, cache_dir)
        return CpuKernel(object=code, symbol="main", parameters=len(prim_func.params))
    launches, workspaces = host_launches(lowered.host["main"], len(prim_func.params))
    compiled = compile_cuda(cuda_source(lowered, target), target.arch, cache_dir)
    return CudaKernel(
        cubin=compiled.cubin,
        launches=launches,
        parameters=len(prim_func.params),
        workspaces=workspaces,
        registers=compiled.registers,
        spill_bytes=compiled.spill_bytes,
    )
