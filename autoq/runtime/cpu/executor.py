"""Runs a plan on the CPU: kernels called in order over one aligned arena."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, cast

import numpy as np
import tvm.runtime
import tvm_ffi

from autoq.errors import ArtifactError
from autoq.runtime.artifact import Artifact
from autoq.runtime.call_time import CallTime
from autoq.runtime.cpu.kernel import LoadedCpuKernel
from autoq.runtime.dlpack import to_numpy
from autoq.runtime.kernel import CpuKernel
from autoq.runtime.plan import Slot
from autoq.templates.arrays.element import numpy_dtype


class CpuExecutor:
    """A plan on this host's CPU, threaded by TVM's pool."""

    readable_devices: ClassVar[dict[str, int | None]] = {"cpu": None, "cuda": None}
    """Kinds of devices whose tensors `run` reads, and the only number allowed, None for any."""

    def __init__(self, artifact: Artifact) -> None:
        plan = artifact.plan
        self._plan = plan
        # Kernels load 64 bytes at a time from aligned addresses.
        sizes = {"arena": plan.arena_bytes, "constant": plan.constant_bytes}
        self._spaces = {name: _memory(size) for name, size in sizes.items()}
        self._spaces["constant"][: plan.constant_bytes] = artifact.constants
        kernels = [LoadedCpuKernel(cast("CpuKernel", kernel)) for kernel in artifact.kernels]
        self._calls = [
            kernels[call.kernel].stages([self._array(slot) for slot in call.slots])
            for call in plan.calls
        ]
        ports = (*plan.inputs, *plan.outputs)
        self._arrays = {port.name: self._array(port.slot) for port in ports}

    def _array(self, slot: Slot) -> np.ndarray:
        data = self._spaces[slot.space][slot.offset : slot.offset + slot.bytes]
        return data.view(numpy_dtype(slot.dtype)).reshape(slot.shape)

    def view(self, name: str) -> Any:
        """The model's own buffer of an input or output, as a numpy array."""
        return self._arrays[name]

    def run(self, feeds: dict[str, Any], outputs: list[str]) -> list[Any]:
        """Run once; see `autoq.session.Session.run`."""
        sources = {name: self._source(name, array) for name, array in feeds.items()}
        for name, source in sources.items():
            np.copyto(self._arrays[name], source)
        self._run_all()
        return [self._arrays[name].copy() for name in outputs]

    def _source(self, name: str, array: Any) -> np.ndarray:
        """A feed in host memory that no other feed's writing changes."""
        source = array if isinstance(array, np.ndarray) else _host_array(array)
        own = source is self._arrays[name]
        return source.copy() if not own and self._in_arena(source) else source

    def _in_arena(self, array: np.ndarray) -> bool:
        return np.may_share_memory(array, self._spaces["arena"])

    def _run_all(self) -> None:
        with _checked_arrays():
            for stages in self._calls:
                for stage in stages:
                    stage()

    def profile(self, repeat: int) -> list[CallTime]:
        """Median seconds of every call within whole runs."""
        samples: list[list[list[float]]] = [[] for _ in self._calls]
        with _checked_arrays():
            for _ in range(repeat):
                for stages, runs in zip(self._calls, samples, strict=True):
                    runs.append([_seconds(stage) for stage in stages])
        return [CallTime.of(runs) for runs in samples]

    def run_seconds(self, repeat: int) -> float:
        """Median seconds of a whole run."""
        samples = []
        for _ in range(repeat):
            start = time.perf_counter()
            self._run_all()
            samples.append(time.perf_counter() - start)
        return statistics.median(samples)


def _seconds(stage: Callable[[], None]) -> float:
    start = time.perf_counter()
    stage()
    return time.perf_counter() - start


@contextlib.contextmanager
def _checked_arrays() -> Iterator[None]:
    """Kernels compare what they are given with what they were compiled for, themselves too."""
    try:
        yield
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArtifactError(f"a kernel refuses its arrays ({error})") from error


def _host_array(array: Any) -> np.ndarray:
    tensor = array if isinstance(array, tvm_ffi.Tensor) else tvm_ffi.from_dlpack(array)
    if tensor.device.type == "cpu":
        return to_numpy(tensor)
    return tvm.runtime.tensor(tensor).numpy()


def _memory(size: int) -> np.ndarray:
    """uint8 [size] at an address that TVM's allocator aligns; one byte where size is 0."""
    try:
        return np.from_dlpack(tvm.runtime.empty((max(size, 1),), "uint8"))
    except RuntimeError as error:
        raise ArtifactError(f"{size} bytes of memory cannot be had ({error})") from error
