"""PrimFuncs to machine code: lowering, launch extraction, nvcc and LLVM objects."""

from autoq.kernel.compile import compile_kernel, compile_program
from autoq.kernel.tvm_script import quicken_parser

quicken_parser()

__all__ = ["compile_kernel", "compile_program"]
