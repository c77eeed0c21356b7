"""PrimFuncs to machine code: lowering, launch extraction, nvcc and LLVM objects."""

from autoq.kernel.compile import compile_kernel

__all__ = ["compile_kernel"]
