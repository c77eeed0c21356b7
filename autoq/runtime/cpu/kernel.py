"""A CPU kernel: object files linked in memory by TVM's ORC loader."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autoq.errors import ArtifactError
from autoq.runtime.cpu.threads import use_every_core
from autoq.runtime.dlpack import to_numpy, to_tensor
from autoq.runtime.kernel import CpuKernel


@functools.cache
def _session() -> Any:
    use_every_core()  # before TVM's pool starts with the first kernel
    # The runtime must be loaded first: objects find its symbols when they are linked.
    import tvm.runtime  # noqa: F401
    from tvm_ffi_orcjit import ExecutionSession

    return ExecutionSession()


class LoadedCpuKernel:
    """A linked kernel; bind it to arrays as often as needed, or call it with tensors.

    Raises ArtifactError for an object that cannot be linked on this machine.
    """

    def __init__(self, kernel: CpuKernel) -> None:
        self._kernel = kernel
        try:
            # The modules own the code: functions dangle without them.
            self._modules = [_session().load_module(code) for code in kernel.modules]
            self._functions = [self._modules[call.module][call.symbol] for call in kernel.calls]
        except (RuntimeError, ValueError, AttributeError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise ArtifactError(f"cannot link a CPU kernel on this machine: {first}") from error

    def bind(self, arrays: Sequence[np.ndarray]) -> Callable[[], None]:
        """A function that runs the kernel over these arrays, as `stages`."""
        stages = self.stages(arrays)
        if len(stages) == 1:
            return stages[0]

        def run() -> None:
            for stage in stages:
                stage()

        return run

    def stages(self, arrays: Sequence[np.ndarray]) -> list[Callable[[], None]]:
        """Functions that run a stage of the kernel each over these arrays, to be called in order.

        There is an array for each parameter, then one for each workspace. Workspaces that stay zero
        are cleared here, and by the first stage those that are cleared before each run.
        """
        spaces = arrays[len(self._kernel.parameters) :]
        pairs = list(zip(spaces, self._kernel.workspaces, strict=True))
        for array, workspace in pairs:
            if workspace.stays_zero:
                array.fill(0)
        cleared = [array for array, workspace in pairs if workspace.zeroed]
        first, *others = self._calls([to_tensor(array) for array in arrays])
        if not cleared:
            return [first, *others]

        def run_cleared() -> None:
            for array in cleared:
                array.fill(0)
            first()

        return [run_cleared, *others]

    def __call__(self, *tensors: Any) -> None:
        """Run a kernel without workspaces over a CPU tensor (or DLPack view) a parameter."""
        for call in self._calls(tensors):
            call()

    def _calls(self, tensors: Sequence[Any]) -> list[Callable[[], None]]:
        pairs = zip(self._functions, self._kernel.calls, strict=True)
        return [
            functools.partial(function, *(tensors[index] for index in call.arguments))
            for function, call in pairs
        ]


def new_workspaces(kernel: CpuKernel) -> list[np.ndarray]:
    """Memory for each workspace, aligned as kernels load it."""
    import tvm.runtime

    pairs = [(workspace.shape, workspace.dtype) for workspace in kernel.workspaces]
    return [to_numpy(tvm.runtime.empty(*pair)) for pair in pairs]
