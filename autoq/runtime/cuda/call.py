"""One CUDA kernel with its constants, called over arrays on the host or the GPU."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from ctypes import c_size_t, c_void_p
from typing import Any

import numpy as np
import tvm.runtime

from autoq.errors import InputError
from autoq.runtime.cuda.driver import Device, Memory, Stream, call
from autoq.runtime.cuda.kernel import BoundKernel, LoadedKernel
from autoq.runtime.dlpack import require_contiguous, to_numpy
from autoq.runtime.kernel import CudaKernel
from autoq.runtime.plan import ALIGNMENT
from autoq.templates.arrays.element import numpy_dtype

_MOST_BOUND = 16
"""Sets of input addresses whose launches are kept encoded."""


class CudaCall:
    """A loaded kernel on GPU `ordinal`, launched in order on the legacy default stream.

    Its outputs are buffers of its own that the next call overwrites. outputs are shapes and dtypes
    as the kernel stores them.
    """

    def __init__(
        self,
        kernel: CudaKernel,
        constants: Sequence[np.ndarray],
        outputs: Sequence[tuple[tuple[int, ...], str]],
        ordinal: int = 0,
    ) -> None:
        self._device = Device(ordinal)
        self._ordinal = ordinal
        self._place = tvm.runtime.device("cuda", ordinal)
        self._loaded = LoadedKernel(kernel)
        self._constants = [Memory(array.nbytes) for array in constants]
        for memory, array in zip(self._constants, constants, strict=True):
            memory.write(np.ascontiguousarray(array))
        self._outputs = [tvm.runtime.empty(*spec, self._place) for spec in outputs]
        self._workspaces = self._loaded.new_workspaces()
        self._staged: dict[int, Any] = {}
        self._bound: OrderedDict[tuple[int, ...], BoundKernel] = OrderedDict()
        self._stream = Stream.legacy()
        self._device.synchronize()

    def __call__(self, inputs: Sequence[tuple[str, Any]]) -> list[Any]:
        """The outputs for named arrays: numpy, unless all inputs are tensors on the GPU."""
        self._device.make_current()
        arrays = [self._readable(*pair) for pair in inputs]
        addresses = tuple(self._address(*pair) for pair in enumerate(arrays))
        self._kernel(addresses).launch(self._stream)
        if not any(isinstance(array, np.ndarray) for array in arrays):
            return list(self._outputs)
        self._stream.synchronize()
        return [output.numpy() for output in self._outputs]

    def _kernel(self, addresses: tuple[int, ...]) -> BoundKernel:
        """The launches over inputs at these addresses."""
        if addresses not in self._bound:
            constants = [memory.address for memory in self._constants]
            outputs = [output.data_ptr() for output in self._outputs]
            workspaces = [memory.address for memory in self._workspaces]
            own = [*constants, *outputs, *workspaces]
            self._bound[addresses] = self._loaded.bind([*addresses, *own])
            if len(self._bound) > _MOST_BOUND:
                self._bound.popitem(last=False)
        self._bound.move_to_end(addresses)
        return self._bound[addresses]

    def _readable(self, name: str, array: Any) -> Any:
        """The input as a dense numpy array, or as a tensor on the GPU."""
        if isinstance(array, np.ndarray):
            return np.ascontiguousarray(array)
        require_contiguous(name, array)
        kind, ordinal = array.device.type, array.device.index
        if kind == "cpu":
            return to_numpy(array)
        if (kind, ordinal) != ("cuda", self._ordinal):
            raise InputError(
                f"input {name!r}: lies on {kind}:{ordinal}; copy it to the CPU or to "
                f"cuda:{self._ordinal}"
            )
        return array

    def _address(self, index: int, array: Any) -> int:
        """Where the kernel reads an input: in place, or in a buffer that it is copied to."""
        if isinstance(array, np.ndarray):
            staged = self._buffer(index, array.shape, str(array.dtype))
            call("cuMemcpyHtoD_v2", c_void_p(staged), c_void_p(array.ctypes.data),
                 c_size_t(array.nbytes))  # fmt: skip
            return staged
        address = int(array.data_ptr())
        own = [output.data_ptr() for output in self._outputs]
        if address % ALIGNMENT == 0 and address not in own:
            return address
        staged = self._buffer(index, tuple(array.shape), str(array.dtype))
        size = int(np.prod(array.shape)) * numpy_dtype(str(array.dtype)).itemsize
        call("cuMemcpyDtoDAsync_v2", c_void_p(staged), c_void_p(address), c_size_t(size),
             self._stream.handle)  # fmt: skip
        return staged

    def _buffer(self, index: int, shape: tuple[int, ...], dtype: str) -> int:
        """The buffer of the operator's own for an input."""
        if index not in self._staged:
            self._staged[index] = tvm.runtime.empty(shape, dtype, self._place)
        return int(self._staged[index].data_ptr())
