"""Many functions in one source, because nvcc reads its headers as long as it compiles a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from tvm.tirx import PrimFunc

from autoq.kernel.elf import sections
from autoq.kernel.lowering import cuda_source, lower
from autoq.kernel.nvcc import compile_cuda
from autoq.templates.target import Target

_HEADERS = "#include <cstdint>\n#include <type_traits>\n#include <cuda.h>\n"


def compiled_together(functions: Sequence[PrimFunc], target: Target) -> tuple[list[bytes], int]:
    """Machine code of each function's kernel, as it is alone, and the most bytes that one spills.

    Raises BuildError with the compiler's first complaint.
    """
    sources = [cuda_source(lower(function, target), target) for function in functions]
    parts = [
        f"namespace n{number} {{\n{source.replace('main_kernel', f'kernel_{number}')}\n}}\n"
        for number, source in enumerate(sources)
    ]
    compiled = compile_cuda(_HEADERS + "".join(parts), target.arch, None)
    found = dict(sections(compiled.cubin))
    code = [found[f".text.kernel_{number}".encode()] for number in range(len(sources))]
    return code, compiled.spill_bytes
