"""One CPU kernel with its constants, called over arrays."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm.runtime

from autoq.errors import InputError
from autoq.runtime.cpu.kernel import LoadedCpuKernel, new_workspaces
from autoq.runtime.dlpack import require_contiguous, to_numpy
from autoq.runtime.kernel import CpuKernel

_ALIGNMENT = 64
"""Bytes; kernels load as many at a time from aligned addresses."""


class CpuCall:
    """A linked kernel; its outputs are new arrays at each call, its workspaces are kept.

    outputs are shapes and dtypes as the kernel stores them.
    """

    def __init__(
        self,
        kernel: CpuKernel,
        constants: Sequence[np.ndarray],
        outputs: Sequence[tuple[tuple[int, ...], str]],
    ) -> None:
        self._kernel = LoadedCpuKernel(kernel)
        self._constants = [_aligned(array) for array in constants]
        self._outputs = outputs
        self._workspaces = new_workspaces(kernel)
        lock: Any = threading.Lock() if self._workspaces else contextlib.nullcontext()
        self._alone = lock

    def __call__(self, inputs: Sequence[tuple[str, Any]]) -> list[np.ndarray]:
        """The outputs for named numpy arrays or CPU tensors; raises InputError for others."""
        arrays = [_aligned(_host(name, array)) for name, array in inputs]
        outputs = [to_numpy(tvm.runtime.empty(*spec)) for spec in self._outputs]
        with self._alone:
            self._kernel.bind([*arrays, *self._constants, *outputs, *self._workspaces])()
        return outputs


def _host(name: str, array: Any) -> np.ndarray:
    if isinstance(array, np.ndarray):
        return array
    if array.device.type != "cpu":
        raise InputError(f"input {name!r}: lies on {array.device.type}; copy it to the CPU")
    require_contiguous(name, array)
    return to_numpy(array)


def _aligned(array: np.ndarray) -> np.ndarray:
    """The array itself where it is dense, writeable and aligned, else a copy that is."""
    if array.flags.c_contiguous and array.flags.writeable and not array.ctypes.data % _ALIGNMENT:
        return array
    copy = to_numpy(tvm.runtime.empty(array.shape, str(array.dtype)))
    copy[...] = array
    return copy
