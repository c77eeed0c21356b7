"""Running one kernel on a GPU: checked runs, and timing by replaying a CUDA graph.

Launches do not overlap unless `Timing.overlapped` asks for it: the graph times a kernel from start
to end many times in a row, as it does the kernels of other libraries. In a model, where each
kernel may start while the one before it drains, a kernel adds less than that.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from autoq.measure.arrays import same_bytes
from autoq.measure.bench import first_dirty
from autoq.measure.cuda_graph_timing import CudaGraphTimer, captured
from autoq.measure.job import Timing
from autoq.measure.stopwatch import Stopwatch, added
from autoq.runtime.cuda.driver import Device, Memory, Stream
from autoq.runtime.cuda.kernel import BoundKernel, LoadedKernel
from autoq.runtime.kernel import CudaKernel, Kernel

_MOST_COPIES = 64


class CudaBench:
    """Inputs and outputs of a workload in device memory.

    `outputs` are host arrays of the outputs' shapes and dtypes.
    """

    def __init__(
        self, device: Device, activations: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> None:
        self.device = device
        self.stream = Stream()
        self._originals = activations
        self.inputs = [upload(array) for array in activations]
        self.outputs = [Memory(array.nbytes) for array in outputs]
        self.host_outputs = [np.empty_like(array) for array in outputs]
        self._inputs_now = [np.empty_like(array) for array in activations]
        device.synchronize()

    def load(self, kernel: Kernel, constants: Sequence[np.ndarray]) -> CudaCandidate:
        """Load the cubin and copy its constants over."""
        if not isinstance(kernel, CudaKernel):
            raise TypeError(f"a CUDA bench cannot run {type(kernel).__name__}")
        return CudaCandidate(self, kernel, constants)

    def restore_inputs(self) -> bool:
        damaged = False
        for memory, original, now in zip(
            self.inputs, self._originals, self._inputs_now, strict=True
        ):
            memory.read(now)
            if not same_bytes(now, original):
                memory.write(original)
                damaged = True
        self.device.synchronize()
        return damaged

    def copies(self) -> list[list[Memory]]:
        """Further sets of inputs and outputs that together pass twice the L2 cache."""
        sizes = [memory.size for memory in self.outputs]
        size = sum(sizes) + sum(memory.size for memory in self.inputs)
        count = min(_MOST_COPIES, -(-2 * self.device.l2_bytes // size))
        return [[*map(upload, self._originals), *map(Memory, sizes)] for _ in range(count)]


class CudaCandidate:
    """A loaded kernel bound to the bench's buffers and its own constants."""

    def __init__(
        self, bench: CudaBench, kernel: CudaKernel, constants: Sequence[np.ndarray]
    ) -> None:
        self._bench = bench
        self._constant_arrays = constants
        self._constants = [upload(array) for array in constants]
        self._loaded = LoadedKernel(kernel)
        self._workspaces = self._loaded.new_workspaces()
        self._bound = self._bind([*bench.inputs, *bench.outputs], self._constants, self._workspaces)
        bench.device.synchronize()

    def _bind(
        self, buffers: Sequence[Memory], constants: Sequence[Memory], workspaces: Sequence[Memory]
    ) -> BoundKernel:
        inputs, outputs = buffers[: len(self._bench.inputs)], buffers[len(self._bench.inputs) :]
        all_of_them = (*inputs, *constants, *outputs, *workspaces)
        return self._loaded.bind([memory.address for memory in all_of_them])

    def run_over(self, poison: int, launches: int = 1) -> Sequence[np.ndarray]:
        bench = self._bench
        spaces = zip(self._loaded.kernel.workspaces, self._workspaces, strict=True)
        used = [memory for workspace, memory in spaces if not workspace.stays_zero]
        for memory in (*bench.outputs, *used):
            memory.fill(poison)
        # The stream does not wait for copies and fills, which use the default stream.
        bench.device.synchronize()
        for _ in range(launches):
            self._bound.launch(bench.stream, overlapped=launches > 1)
        bench.device.synchronize()
        for memory, array in zip(bench.outputs, bench.host_outputs, strict=True):
            memory.read(array)
        return bench.host_outputs

    def left_dirty(self) -> str | None:
        found = []
        for workspace, memory in zip(self._loaded.kernel.workspaces, self._workspaces, strict=True):
            if workspace.stays_zero:
                held = np.empty(memory.size, np.uint8)
                memory.read(held)
                found.append((workspace, held))
        return first_dirty(found)

    def stopwatch(self, timing: Timing, beside: Sequence[CudaCandidate] = ()) -> Stopwatch:
        bench = self._bench
        sets = [(self._bound, [*self._constants, *self._workspaces])]
        if timing.cold:
            for buffers in bench.copies():
                constants = [upload(array) for array in self._constant_arrays]
                spaces = self._loaded.new_workspaces()
                bound = self._bind(buffers, constants, spaces)
                sets.append((bound, [*buffers, *constants, *spaces]))
            bench.device.synchronize()
        kernels = [kernel for kernel, _ in sets]
        if not beside:
            return dataclasses.replace(_in_order(bench.stream, kernels, timing), holds=sets)
        others = [one._bound for one in beside]
        size = math.lcm(len(kernels), len(others))
        chosen = [(others[i % len(others)], kernels[i % len(kernels)]) for i in range(size)]
        among = _in_order(bench.stream, [one for pair in chosen for one in pair], timing)
        without = _in_order(bench.stream, others, timing)
        return added(among, without, (sets, beside))


def _in_order(stream: Stream, kernels: Sequence[BoundKernel], timing: Timing) -> Stopwatch:
    """What times launches of kernels in their order, again and again."""

    def launch(index: int) -> None:
        kernels[index % len(kernels)].launch(stream, timing.overlapped)

    timer = CudaGraphTimer(stream, lambda number: captured(stream, launch, number))
    return timer.stopwatch(timing, least_launches=len(kernels))


def upload(array: np.ndarray) -> Memory:
    """Device memory with a copy of an array; visible to streams after a synchronisation."""
    memory = Memory(array.nbytes)
    memory.write(np.ascontiguousarray(array))
    return memory
