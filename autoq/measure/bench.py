"""Running one kernel for checking and timing: over device memory, or over host arrays."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from autoq.measure.arrays import same_bytes
from autoq.measure.job import Timing
from autoq.measure.stopwatch import Stopwatch
from autoq.runtime.kernel import CpuKernel, Kernel, Workspace

POISON = (0x5A, 0xC3)
"""Bytes that outputs hold before a checked run: neither 0 nor a bound of any dtype."""

_CPU_ALIGNMENT = 64
_MOST_LAUNCHES = 10_000


class LoadedCandidate(Protocol):
    """A kernel that is ready to run over a workload's inputs."""

    def run_over(self, poison: int, launches: int = 1) -> Sequence[np.ndarray]:
        """The outputs after a run over memory filled with a byte; valid until the next run.

        Outputs and workspaces hold it, but for those that are cleared. launches: more than one
        overlap where a GPU can.
        """
        ...

    def left_dirty(self) -> str | None:
        """Which workspace is not left at zero as it should, in one line; None for none."""
        ...

    def stopwatch(self, timing: Timing, beside: Sequence[Any] = ()) -> Stopwatch:
        """What times it, with as many launches in each timing as `timing` asks for.

        beside: other candidates on the device, each launch of which one of its own follows; the
        seconds are then what its launches add.
        """
        ...


class Bench(Protocol):
    """A device with the inputs of one workload on it."""

    def load(self, kernel: Kernel, constants: Sequence[np.ndarray]) -> LoadedCandidate: ...

    def restore_inputs(self) -> bool:
        """Write damaged inputs anew; whether any was damaged."""
        ...


class CpuBench:
    """Inputs and outputs in aligned host memory; `outputs` give shapes and dtypes."""

    def __init__(self, activations: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        self._originals = activations
        self.inputs = [_aligned(array) for array in activations]
        self.outputs = [_aligned(np.empty_like(array)) for array in outputs]

    def load(self, kernel: Kernel, constants: Sequence[np.ndarray]) -> CpuCandidate:
        """Link the object file."""
        if not isinstance(kernel, CpuKernel):
            raise TypeError(f"a CPU bench cannot run {type(kernel).__name__}")
        packed = [_aligned(array) for array in constants]
        return CpuCandidate(kernel, self.inputs, packed, self.outputs)

    def restore_inputs(self) -> bool:
        damaged = False
        for array, original in zip(self.inputs, self._originals, strict=True):
            if not same_bytes(array, original):
                array[...] = original
                damaged = True
        return damaged


class CpuCandidate:
    """A linked kernel over host arrays."""

    def __init__(
        self,
        kernel: CpuKernel,
        inputs: Sequence[np.ndarray],
        constants: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        from autoq.runtime.cpu.kernel import LoadedCpuKernel, new_workspaces

        self._outputs = outputs
        spaces = new_workspaces(kernel)
        self._workspaces = list(zip(kernel.workspaces, spaces, strict=True))
        self._run = LoadedCpuKernel(kernel).bind([*inputs, *constants, *outputs, *spaces])

    def run_over(self, poison: int, launches: int = 1) -> Sequence[np.ndarray]:
        used = [array for workspace, array in self._workspaces if not workspace.stays_zero]
        for array in (*self._outputs, *used):
            array.reshape(-1).view(np.uint8).fill(poison)
        for _ in range(launches):
            self._run()
        return self._outputs

    def left_dirty(self) -> str | None:
        return first_dirty(self._workspaces)

    def stopwatch(self, timing: Timing, beside: Sequence[Any] = ()) -> Stopwatch:
        """As the protocol says; what has no meaning on the CPU is refused."""
        if timing.cold or timing.overlapped or beside:
            raise ValueError("cold and overlapped timings are for CUDA targets, and so is `beside`")
        once = self._timed(1)
        number = timing.number or min(_MOST_LAUNCHES, max(1, int(timing.min_seconds / once)))
        return Stopwatch(number, lambda: self._timed(number))

    def _timed(self, number: int) -> float:
        run = self._run
        start = time.perf_counter()
        for _ in range(number):
            run()
        return time.perf_counter() - start


def first_dirty(workspaces: Iterable[tuple[Workspace, np.ndarray]]) -> str | None:
    """What is wrong with workspaces that should have stayed zero, given what they hold."""
    for workspace, array in workspaces:
        count = int(np.count_nonzero(array.reshape(-1).view(np.uint8)))
        if workspace.stays_zero and count:
            return f"workspace {workspace.name!r}: {count} bytes are not left at zero"
    return None


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy whose first byte lies on a boundary of 64 bytes, as TVM's own tensors do."""
    memory = np.empty(array.nbytes + _CPU_ALIGNMENT, np.uint8)
    offset = -memory.ctypes.data % _CPU_ALIGNMENT
    copy = memory[offset : offset + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
