"""A CUDA kernel bound to device addresses, launched without further work on the host."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from ctypes import c_void_p
from typing import Any

from autoq.errors import DriverError, TargetError
from autoq.runtime.cuda.driver import Event, Function, Memory, Module, Stream, clear
from autoq.runtime.cuda.graph import CudaGraph, captured_node
from autoq.runtime.cuda.launching import launch
from autoq.runtime.cuda.tensor_map import TensorMap
from autoq.runtime.kernel import Argument, Buffer, CudaKernel, Launch, Scalar
from autoq.runtime.kernel_check import array_bytes

_SCALARS: dict[str, Any] = {
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
}


class LoadedKernel:
    """A CudaKernel whose machine code is on the current device; bind it as often as needed.

    Raises TargetError where blocks wait for one another and the device cannot run all at once.
    """

    def __init__(self, kernel: CudaKernel) -> None:
        self.kernel = kernel
        modules = [Module(cubin) for cubin in kernel.modules]
        self._functions = [
            Function(modules[item.module], item.symbol, item.smem_bytes, item.cluster[0])
            for item in kernel.launches
        ]
        for function, item in zip(self._functions, kernel.launches, strict=True):
            if item.cooperative:
                _require_room(function, item)

    def new_workspaces(self) -> list[Memory]:
        """Memory for each workspace, for `bind`; those that stay zero are cleared."""
        sizes = [array_bytes(space, space.name) for space in self.kernel.workspaces]
        spaces = [Memory(size) for size in sizes]
        for memory, workspace in zip(spaces, self.kernel.workspaces, strict=True):
            if workspace.stays_zero:
                memory.fill(0)
        return spaces

    def bind(self, addresses: Sequence[int]) -> BoundKernel:
        """The kernel over device addresses, one for each parameter, then for each workspace.

        Workspaces that stay zero are cleared by whoever allocates them.
        """
        return BoundKernel(self.kernel, self._functions, addresses)


def _require_room(function: Function, item: Launch) -> None:
    blocks = math.prod(item.grid)
    found = function.resident_blocks(math.prod(item.block), item.smem_bytes)
    if blocks > found:
        raise TargetError(
            f"{item.symbol}: {blocks} blocks have to run at once, and this GPU runs {found} of "
            "them; compile the model on a GPU like this one"
        )


class BoundKernel:
    """Launches with their arguments encoded; buffers must outlive it."""

    def __init__(
        self, kernel: CudaKernel, functions: Sequence[Function], addresses: Sequence[int]
    ) -> None:
        needed = len(kernel.parameters) + len(kernel.workspaces)
        if len(addresses) != needed:
            raise DriverError(f"{needed} addresses needed, {len(addresses)} given")
        self._nodes: list[c_void_p] = []
        self._addresses = addresses
        spaces = zip(addresses[len(kernel.parameters) :], kernel.workspaces, strict=True)
        self._cleared = [(at, array_bytes(w, w.name)) for at, w in spaces if w.zeroed]
        self._values = [
            [self._value(argument) for argument in item.arguments] for item in kernel.launches
        ]
        self._launches = [
            (function, item, _pointers(values))
            for function, item, values in zip(functions, kernel.launches, self._values, strict=True)
        ]

    def _value(self, argument: Argument) -> Any:
        """The ctypes object or TensorMap that a launch's argument points at."""
        if isinstance(argument, Buffer):
            return ctypes.c_uint64(self._addresses[argument.index])
        if isinstance(argument, Scalar):
            return _SCALARS[argument.dtype](argument.value)
        return TensorMap(argument, self._addresses[argument.index])

    @property
    def stages(self) -> int:
        """Launches of the kernel."""
        return len(self._launches)

    def launch_between(self, stream: Stream, events: Sequence[Event]) -> None:
        """`launch`, with an event recorded before the first and behind each of the launches."""
        events[0].record(stream)
        self._clear(stream)
        for (function, item, pointers), event in zip(self._launches, events[1:], strict=True):
            _launch(function, item, pointers, stream, overlapped=False)
            event.record(stream)

    def launch(self, stream: Stream, overlapped: bool = False) -> None:
        """Put all launches on the stream, in order, behind the clearing of workspaces.

        overlapped: those that wait for their predecessors themselves may start while the launch
        before them runs, by programmatic dependent launch.
        """
        self._clear(stream)
        for index, (function, item, pointers) in enumerate(self._launches):
            _launch(function, item, pointers, stream, overlapped and self._follows_a_launch(index))

    def capture(self, stream: Stream) -> None:
        """Put all launches, overlapped, on a stream that is being captured; keeps their nodes."""
        self._nodes = []
        self._clear(stream)
        for index, (function, item, pointers) in enumerate(self._launches):
            _launch(function, item, pointers, stream, self._follows_a_launch(index))
            self._nodes.append(captured_node(stream))

    def _clear(self, stream: Stream) -> None:
        for address, size in self._cleared:
            clear(address, size, stream)

    def _follows_a_launch(self, index: int) -> bool:
        """Whether a launch may overlap what is before it: the clearing of memory is no launch."""
        return index > 0 or not self._cleared

    def move(self, parameter: int, address: int, graph: CudaGraph) -> None:
        """Pass another address for a parameter, in launches and in the graph of `capture`."""
        for (function, item, pointers), values, node in zip(
            self._launches, self._values, self._nodes, strict=True
        ):
            moved = False
            for argument, value in zip(item.arguments, values, strict=True):
                if isinstance(argument, Scalar) or argument.index != parameter:
                    continue
                moved = True
                if isinstance(argument, Buffer):
                    value.value = address
                else:
                    value.encode(address)
            if moved:
                graph.set_arguments(
                    node, function, item.grid, item.block, item.smem_bytes, pointers
                )


def _launch(
    function: Function, item: Launch, pointers: Any, stream: Stream, overlapped: bool
) -> None:
    launch(
        function,
        (item.grid, item.block, item.cluster),
        item.smem_bytes,
        stream,
        pointers,
        overlapped and item.programmatic,
        item.cooperative,
    )


def _pointers(values: Sequence[Any]) -> Any:
    addresses = [
        value.address if isinstance(value, TensorMap) else ctypes.addressof(value)
        for value in values
    ]
    return (c_void_p * len(addresses))(*addresses)
