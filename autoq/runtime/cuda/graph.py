"""CUDA graphs through the driver: capture of a stream, replay, other arguments for a node."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p
from typing import Any

from autoq.runtime.cuda.driver import Function, Stream, call, load_driver

_CAPTURE_RELAXED = 2


class _KernelNodeParams(ctypes.Structure):
    _fields_ = (
        ("function", c_void_p),
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("smem_bytes", c_uint),
        ("arguments", c_void_p),
        ("extra", c_void_p),
        ("kernel", c_void_p),
        ("context", c_void_p),
    )


class CudaGraph:
    """A captured stream, instantiated; `replay` launches all of it at once."""

    def __init__(self, handle: c_void_p) -> None:
        self._executable = c_void_p()
        self._handle = handle  # `captured_node`'s nodes live as long
        call("cuGraphInstantiateWithFlags", byref(self._executable), handle, ctypes.c_ulonglong(0))
        self._launch = load_driver().cuGraphLaunch

    def replay(self, stream: Stream) -> None:
        """Launch the graph once on `stream`."""
        if self._launch(self._executable, stream.handle):
            call("cuGraphLaunch", self._executable, stream.handle)

    def set_arguments(
        self,
        node: c_void_p,
        function: Function,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        smem_bytes: int,
        arguments: Any,
    ) -> None:
        """Give a kernel node other arguments, for replays from now on; see `launch`."""
        params = _KernelNodeParams(
            function.handle,
            (c_uint * 3)(*grid),
            (c_uint * 3)(*block),
            smem_bytes,
            ctypes.addressof(arguments),
        )
        call("cuGraphExecKernelNodeSetParams_v2", self._executable, node, byref(params))

    def __del__(self) -> None:
        if self._executable:
            load_driver().cuGraphExecDestroy(self._executable)
            load_driver().cuGraphDestroy(self._handle)


def begin_capture(stream: Stream) -> None:
    """Start recording the stream's launches instead of running them."""
    call("cuStreamBeginCapture_v2", stream.handle, _CAPTURE_RELAXED)


def captured_node(stream: Stream) -> c_void_p:
    """The node of what was last launched on a stream that is being captured."""
    status, ident, graph = c_int(), ctypes.c_uint64(), c_void_p()
    nodes, edges, count = ctypes.POINTER(c_void_p)(), c_void_p(), c_size_t()
    call("cuStreamGetCaptureInfo_v3", stream.handle, byref(status), byref(ident), byref(graph),
         byref(nodes), byref(edges), byref(count))  # fmt: skip
    return c_void_p(nodes[0])


def end_capture(stream: Stream) -> CudaGraph:
    """The launches recorded since `begin_capture`."""
    handle = c_void_p()
    call("cuStreamEndCapture", stream.handle, byref(handle))
    return CudaGraph(handle)
