"""Where a captured graph reads an input of the model: its own buffer or the caller's memory."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_size_t, c_void_p
from typing import Any

from autoq.runtime.cuda.driver import Stream, call
from autoq.runtime.cuda.graph import CudaGraph
from autoq.runtime.cuda.kernel import BoundKernel
from autoq.runtime.plan import ALIGNMENT


class Feed:
    """One input of a model captured in `graph`.

    readers are the kernels that take the input, each with the parameter that it is; own is the
    address of the model's buffer, size its bytes, arena the addresses that replays write. An input
    on the device is not copied: the readers are pointed at it, which costs host time only when
    the address changes.
    """

    def __init__(
        self,
        graph: CudaGraph,
        readers: Sequence[tuple[BoundKernel, int]],
        own: int,
        size: int,
        arena: range,
        stream: Stream,
    ) -> None:
        self._graph, self._readers, self._stream = graph, readers, stream
        self._own, self._size, self._arena = own, c_size_t(size), arena
        self._current = own

    def reset(self) -> None:
        """Read the model's own buffer."""
        self._point_at(self._own)

    def device(self, address: int) -> None:
        """Read device memory that stays valid until the replay has run.

        It is copied when it is not aligned as the kernels expect, or is a buffer of the model.
        """
        if address != self._own and (address % ALIGNMENT or address in self._arena):
            self._point_at(self._own)
            call("cuMemcpyDtoDAsync_v2", c_void_p(self._own), c_void_p(address), self._size,
                 self._stream.handle)  # fmt: skip
        else:
            self._point_at(address)

    def host(self, array: Any) -> None:
        """Copy a contiguous numpy array in; it may change once this returns."""
        self._point_at(self._own)
        call("cuMemcpyHtoD_v2", c_void_p(self._own), c_void_p(array.ctypes.data), self._size)

    def _point_at(self, address: int) -> None:
        if address == self._current:
            return
        for kernel, parameter in self._readers:
            kernel.move(parameter, address, self._graph)
        self._current = address
