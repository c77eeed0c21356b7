"""Arrays of other libraries as TVM tensors, through DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm_ffi

from autoq.errors import InputError
from autoq.templates.arrays.element import numpy_dtype

ARRAYS = (np.ndarray, tvm_ffi.Tensor)
"""What needs no conversion."""


def tensor_of(name: str, array: Any) -> tvm_ffi.Tensor:
    """A tensor over another library's array; raises InputError for what is none."""
    if not hasattr(array, "__dlpack__"):
        raise InputError(
            f"input {name!r}: expected a numpy or DLPack array, found {type(array).__name__}"
        )
    try:
        return tvm_ffi.from_dlpack(array)
    except Exception as error:  # it is the other library's code that runs, and may raise anything
        line = " ".join(str(error).split())[:200]
        raise InputError(
            f"input {name!r}: the __dlpack__ of {type(array).__name__} failed with "
            f"{type(error).__name__}: {line}"
        ) from error


def to_tensor(array: np.ndarray) -> tvm_ffi.Tensor:
    """A tensor over a dense numpy array, dtypes of ml_dtypes included.

    numpy exports none of those through DLPack, so that their bits go as unsigned integers.
    """
    if array.dtype.isbuiltin == 1:
        return tvm_ffi.from_dlpack(array)
    bits = tvm_ffi.from_dlpack(array.view(f"uint{8 * array.itemsize}"))
    return bits._create_view(array.shape, str(array.dtype))


def to_numpy(tensor: tvm_ffi.Tensor) -> np.ndarray:
    """A numpy array over a dense tensor on the CPU, the opposite of `to_tensor`."""
    dtype = numpy_dtype(str(tensor.dtype))
    if dtype.isbuiltin == 1:
        return np.from_dlpack(tensor)
    bits = tensor._create_view(tensor.shape, f"uint{8 * dtype.itemsize}")
    return np.from_dlpack(bits).view(dtype)


def require_contiguous(name: str, array: tvm_ffi.Tensor) -> None:
    """Raise InputError for a tensor that is not dense in row-major order."""
    if not array.is_contiguous():
        raise InputError(f"input {name!r}: strided; make it contiguous in row-major order")
