"""A CUDA kernel bound to device addresses, launched without further work on the host."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_void_p
from typing import Any

from autoq.errors import DriverError
from autoq.runtime.cuda_driver import Function, Memory, Module, Stream, launch
from autoq.runtime.kernel import Buffer, CudaKernel, Launch, Scalar
from autoq.runtime.tensor_map import TensorMap

_SCALARS: dict[str, Any] = {
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
}


class LoadedKernel:
    """A CudaKernel whose machine code is on the current device; bind it as often as needed."""

    def __init__(self, kernel: CudaKernel) -> None:
        self.kernel = kernel
        module = Module(kernel.cubin)
        self._functions = [
            Function(module, item.symbol, item.smem_bytes, item.cluster[0])
            for item in kernel.launches
        ]

    def bind(self, addresses: Sequence[int]) -> BoundKernel:
        """The kernel over device addresses, one for each PrimFunc parameter."""
        return BoundKernel(self.kernel, self._functions, addresses)


class BoundKernel:
    """Launches with their arguments encoded; buffers must outlive it."""

    def __init__(
        self, kernel: CudaKernel, functions: Sequence[Function], addresses: Sequence[int]
    ) -> None:
        if len(addresses) != kernel.parameters:
            raise DriverError(f"{kernel.parameters} addresses needed, {len(addresses)} given")
        self._workspaces = [Memory(size) for size in kernel.workspaces]
        self._all = [*addresses, *(memory.address for memory in self._workspaces)]
        self._kept: list[Any] = []  # what the argument pointers point at
        self._launches = [
            (function, item, self._pointers(item))
            for function, item in zip(functions, kernel.launches, strict=True)
        ]

    def _pointers(self, item: Launch) -> Any:
        pointers = (c_void_p * len(item.arguments))()
        for position, argument in enumerate(item.arguments):
            if isinstance(argument, Buffer):
                value: Any = ctypes.c_uint64(self._all[argument.index])
                pointers[position] = ctypes.addressof(value)
            elif isinstance(argument, Scalar):
                value = _SCALARS[argument.dtype](argument.value)
                pointers[position] = ctypes.addressof(value)
            else:
                value = TensorMap(argument, self._all[argument.index])
                pointers[position] = value.address
            self._kept.append(value)
        return pointers

    def launch(self, stream: Stream, overlapped: bool = False) -> None:
        """Put all launches on the stream, in order.

        overlapped: those that wait for their predecessors themselves may start while the launch
        before them runs, by programmatic dependent launch.
        """
        for function, item, pointers in self._launches:
            launch(
                function,
                item.grid,
                item.block,
                item.cluster,
                item.smem_bytes,
                stream,
                pointers,
                overlapped and item.programmatic,
            )
