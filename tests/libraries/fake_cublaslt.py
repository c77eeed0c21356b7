"""A cuBLASLt that multiplies on the host, and the driver's memory and streams for it."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from ctypes import c_float, c_int32
from typing import Any, ClassVar

import numpy as np

from autoq.templates.arrays.element import numpy_dtype

_NAMES = {0: "float32", 2: "float16", 3: "int8", 10: "int32", 14: "bfloat16", 28: "float8_e4m3fn"}
_TRANSPOSE_A, _POINTER_MODE = 3, 2
_SCALE_POINTERS, _SCALE_MODES, _OUTER_VECTOR = (17, 18), (31, 32), 3
_BATCH_COUNT, _BATCH_OFFSET = 5, 6
_FAST_SUMS = 25
_HOST, _VECTOR_BETA_ZERO, _VECTOR = 0, 3, 4
RIGHT, WRONG, FAILING = 21, 22, 23
"""Algorithms that the heuristic proposes: one is right, one is off, one is refused."""

NOT_SUPPORTED = 15


def serve_death(ordinal: int) -> Callable[[Any], Any]:
    """The handler of a process that dies of its request."""
    return lambda request: os.kill(os.getpid(), signal.SIGSEGV)


class FakeMemory:
    """Memory of the host with an address of its own, which is gone with it."""

    held: ClassVar[dict[int, np.ndarray]] = {}
    numbers: ClassVar[Iterator[int]] = itertools.count(1)

    def __init__(self, size: int) -> None:
        self.size, self.address = size, 4096 * next(self.numbers)
        self.held[self.address] = np.zeros(size, np.uint8)

    def __del__(self) -> None:
        self.held.pop(self.address, None)

    def fill(self, byte: int) -> None:
        self.held[self.address][:] = byte

    def write(self, source: np.ndarray) -> None:
        self.held[self.address][:] = source.reshape(-1).view(np.uint8)

    def read(self, target: np.ndarray) -> None:
        target.view(np.uint8)[:] = self.held[self.address]


class FakeDevice:
    l2_bytes = 1 << 12

    def __init__(self, ordinal: int = 0) -> None: ...

    def synchronize(self) -> None: ...


class FakeStream:
    handle = None


class FakeCublasLt:
    """The functions that autoq calls; handles are numbers of what they stand for.

    Attributes:
        products: how many were computed.
        fast_sums: whether any were asked to be summed fast, or not.
    """

    def __init__(self) -> None:
        self._made: list[Any] = [None]
        self.products = 0
        self.fast_sums: set[bool] = set()

    def _make(self, place: Any, thing: Any) -> int:
        self._made.append(thing)
        place._obj.value = len(self._made) - 1
        return 0

    def cublasLtCreate(self, handle: Any) -> int:
        return self._make(handle, "handle")

    def cublasLtGetVersion(self) -> int:
        return 130001

    def cublasLtGetStatusString(self, code: int) -> bytes:
        return b"CUBLAS_STATUS_NOT_SUPPORTED" if code == NOT_SUPPORTED else b"?"

    def cublasLtMatmulDescCreate(self, operation: Any, compute: int, scale: int) -> int:
        return self._make(operation, {"compute": compute, "scale": _NAMES[scale]})

    def cublasLtMatmulDescSetAttribute(
        self, operation: Any, name: int, value: Any, size: Any
    ) -> int:
        assert size.value == ctypes.sizeof(value._obj)
        self._made[operation.value][name] = value._obj.value
        return 0

    def cublasLtMatrixLayoutCreate(self, layout: Any, kind: int, *extents: Any) -> int:
        rows, columns, leading = (extent.value for extent in extents)
        assert leading == rows
        return self._make(layout, {"kind": _NAMES[kind], "shape": (rows, columns)})

    def cublasLtMatrixLayoutSetAttribute(
        self, layout: Any, name: int, value: Any, size: Any
    ) -> int:
        assert size.value == ctypes.sizeof(value._obj)
        self._made[layout.value][name] = value._obj.value
        return 0

    def cublasLtMatmulPreferenceCreate(self, preference: Any) -> int:
        return self._make(preference, {})

    def cublasLtMatmulPreferenceSetAttribute(self, *arguments: Any) -> int:
        return 0

    def cublasLtMatmulPreferenceDestroy(self, preference: Any) -> int:
        return 0

    def cublasLtMatmulAlgoGetHeuristic(self, *arguments: Any) -> int:
        if self._made[arguments[2].value]["shape"][0] % 4:
            return NOT_SUPPORTED
        *_, most, found, count = arguments
        assert most == len(found)
        for place, number in enumerate((WRONG, FAILING, RIGHT)):
            found[place].algorithm[0], found[place].state = number, 0
        found[3].state = NOT_SUPPORTED
        count._obj.value = 4
        return 0

    def cublasLtMatmul(self, handle: Any, operation: Any, *arguments: Any) -> int:
        alpha, a, la, b, lb, beta, c, lc, d, ld, algorithm, _, _, _ = arguments
        number = algorithm._obj[0] & 0xFFFFFFFF
        if number == FAILING:
            return NOT_SUPPORTED
        self.products += 1
        how = self._made[operation.value]
        left, right = self._matrix(a, la), self._matrix(b, lb)
        self.fast_sums.add(bool(how.get(_FAST_SUMS)))
        left = left.swapaxes(-1, -2) if how[_TRANSPOSE_A] else left
        wide = np.int64 if left.dtype == np.int8 else np.float32
        sums = left.astype(wide) @ right.astype(wide)
        factor, mode = self._factor(how["scale"], alpha), how[_POINTER_MODE]
        if mode != _HOST:
            assert mode in (_VECTOR_BETA_ZERO, _VECTOR)
            factor = FakeMemory.held[alpha.value].view(np.float32)[:, None]
        for pointer, mode, axis in zip(_SCALE_POINTERS, _SCALE_MODES, (1, 0), strict=True):
            if pointer in how:
                assert how[mode] == _OUTER_VECTOR and left.dtype.itemsize == 1
                sums = sums * np.expand_dims(FakeMemory.held[how[pointer]].view(np.float32), axis)
        addend = self._factor(how["scale"], beta) * self._matrix(c, lc).astype(np.float32)
        y = np.asarray(sums * factor + (addend if mode != _VECTOR_BETA_ZERO else 0))
        if number == WRONG:
            y = y + np.float32(3 * np.abs(y).max())
        out = self._matrix(d, ld)
        if out.dtype == np.int8:
            y = np.clip(np.rint(y), -128, 127)
        out[...] = y.astype(out.dtype)
        return 0

    def _factor(self, kind: str, pointer: Any) -> Any:
        if isinstance(pointer, ctypes.c_void_p):
            return None
        assert isinstance(pointer._obj, c_int32 if kind == "int32" else c_float)
        return pointer._obj.value

    def _matrix(self, memory: Any, layout: Any) -> np.ndarray:
        made = self._made[layout.value]
        rows, columns = made["shape"]
        whole = FakeMemory.held[memory.value].view(numpy_dtype(made["kind"]))
        batch = made.get(_BATCH_COUNT, 1)
        assert made.get(_BATCH_OFFSET, rows * columns) == rows * columns
        return whole.reshape(*([batch] if batch > 1 else []), columns, rows).swapaxes(-1, -2)
