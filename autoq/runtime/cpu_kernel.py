"""A CPU kernel: an object file linked in memory by TVM's ORC loader."""

from __future__ import annotations

import functools
from typing import Any

from autoq.errors import ArtifactError
from autoq.runtime.kernel import CpuKernel
from autoq.runtime.threads import use_every_core


@functools.cache
def _session() -> Any:
    use_every_core()  # before TVM's pool starts with the first kernel
    # The runtime must be loaded first: objects find its symbols when they are linked.
    import tvm.runtime  # noqa: F401
    from tvm_ffi_orcjit import ExecutionSession

    return ExecutionSession()


class LoadedCpuKernel:
    """A linked kernel; called with one CPU tensor (or DLPack view) for each PrimFunc parameter.

    Raises ArtifactError for an object that cannot be linked on this machine.
    """

    def __init__(self, kernel: CpuKernel) -> None:
        try:
            # The module owns the code: the function dangles without it.
            self._module = _session().load_module(kernel.object)
            self.function = self._module[kernel.symbol]
        except (RuntimeError, ValueError, AttributeError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise ArtifactError(f"cannot link a CPU kernel on this machine: {first}") from error

    def __call__(self, *tensors: Any) -> None:
        self.function(*tensors)
