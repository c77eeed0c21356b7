"""cuBLASLt: its handle, a product of two matrices, and the algorithms that it proposes for it."""

from __future__ import annotations

import ctypes
import functools
from ctypes import byref, c_float, c_int, c_int8, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

from autoq.errors import LibraryError
from autoq.libraries.loading import load
from autoq.runtime.cuda.driver import Device, Memory, Stream

WORKSPACE_BYTES = 64 << 20
MOST_ALGORITHMS = 32
COMPUTE_FLOAT32, COMPUTE_INT32 = 68, 72
SCALE_BY_VECTOR_BETA_ZERO, SCALE_BY_VECTOR = 3, 4
"""Pointer modes: a factor of each row in device memory, and beta 0 or a number of the host."""

_TYPES = {
    "float32": 0, "float16": 2, "int8": 3, "int32": 10, "bfloat16": 14, "float8_e4m3fn": 28,
}  # fmt: skip
_PREFERENCE_WORKSPACE_BYTES = 1
_POINTER_MODE, _TRANSPOSE_A, _TRANSPOSED = 2, 3, 1
_SCALE_POINTERS, _SCALE_MODES, _OUTER_VECTOR = (17, 18), (31, 32), 3
_FAST_SUMS = 25
_BATCH_COUNT, _BATCH_OFFSET = 5, 6
_MOST_COPIES = 64


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace_bytes", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )

    @property
    def number(self) -> int:
        """The algorithm's own number, by which reports name it."""
        return int(self.algorithm[0]) & 0xFFFFFFFF


@functools.cache
def library() -> ctypes.CDLL:
    """The library; raises LibraryError where there is none."""
    found = load("libcublasLt")
    found.cublasLtGetVersion.restype = c_size_t
    found.cublasLtGetStatusString.restype = ctypes.c_char_p
    return found


def call(name: str, *args: object) -> None:
    """Call a function; raises LibraryError with what the library says of its failure."""
    code = getattr(library(), name)(*args)
    if code != 0:
        raise LibraryError(f"{name}: {library().cublasLtGetStatusString(code).decode()}")


class Handle:
    """The library on the current device, with a workspace for its products."""

    def __init__(self) -> None:
        self.handle = c_void_p()
        call("cublasLtCreate", byref(self.handle))
        self.workspace = Memory(WORKSPACE_BYTES)
        number = library().cublasLtGetVersion()
        self.version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"


class Matmul:
    """d [rows, columns] = a' b, plus c of d's type, all column-major without gaps.

    a is [depth, rows], or [rows, depth] where it is multiplied as it lies, and b [depth, columns],
    both of in_dtype. compute: the type of the sums; scale_dtype: that of alpha and beta; scales:
    how alpha is given, 0 for a number of the host; batch: products one behind the other.
    """

    def __init__(
        self, handle: Handle, extents: tuple[int, int, int], dtypes: tuple[str, str, str],
        compute: int, scales: int = 0, batch: int = 1, as_it_lies: bool = False,
    ) -> None:  # fmt: skip
        rows, columns, depth = extents
        in_dtype, out_dtype, scale_dtype = dtypes
        self._handle = handle
        self._operation = c_void_p()
        call("cublasLtMatmulDescCreate", byref(self._operation), compute, _TYPES[scale_dtype])
        turned = 0 if as_it_lies else _TRANSPOSED
        self._set(_TRANSPOSE_A, c_int32(turned))
        self._set(_POINTER_MODE, c_int32(scales))
        of_a = (rows, depth) if as_it_lies else (depth, rows)
        self._a = _layout(in_dtype, *of_a, batch)
        self._b = _layout(in_dtype, depth, columns, batch)
        self._d = _layout(out_dtype, rows, columns, batch)

    def sum_fast(self) -> None:
        """Leave sums of float8_e4m3fn to the tensor cores, with fewer bits than float32 has."""
        self._set(_FAST_SUMS, c_int8(1))

    def scale_rows(self, of_a: Memory, of_b: Memory) -> None:
        """Factors, float32, of each row of d and of each column, for float8_e4m3fn."""
        for memory, pointer, mode in zip((of_a, of_b), _SCALE_POINTERS, _SCALE_MODES, strict=True):
            self._set(pointer, c_void_p(memory.address))
            self._set(mode, c_int32(_OUTER_VECTOR))

    def _set(self, attribute: int, value: Any) -> None:
        size = c_size_t(ctypes.sizeof(value))
        call("cublasLtMatmulDescSetAttribute", self._operation, attribute, byref(value), size)

    def algorithms(self) -> list[Heuristic]:
        """What the heuristic proposes for 64 MiB of workspace, its favourite first."""
        preference = c_void_p()
        call("cublasLtMatmulPreferenceCreate", byref(preference))
        limit = c_uint64(WORKSPACE_BYTES)
        call("cublasLtMatmulPreferenceSetAttribute", preference, _PREFERENCE_WORKSPACE_BYTES,
             byref(limit), c_size_t(8))  # fmt: skip
        found, count = (Heuristic * MOST_ALGORITHMS)(), c_int()
        code = library().cublasLtMatmulAlgoGetHeuristic(
            self._handle.handle, self._operation, self._a, self._b, self._d, self._d, preference,
            MOST_ALGORITHMS, found, byref(count),
        )  # fmt: skip
        call("cublasLtMatmulPreferenceDestroy", preference)
        return [item for item in found[: count.value] if item.state == 0] if code == 0 else []

    def launch(
        self, item: Heuristic, stream: Stream, factors: tuple[Any, Any],
        matrices: tuple[Memory, Memory, Memory, Memory],
    ) -> None:  # fmt: skip
        """Put the product on a stream: `d = alpha * a' b + beta * c`.

        factors: pointers to alpha and beta; matrices: a, b, c and d.
        """
        alpha, beta = factors
        a, b, c, d = (c_void_p(matrix.address) for matrix in matrices)
        workspace = self._handle.workspace
        call(
            "cublasLtMatmul", self._handle.handle, self._operation, alpha, a, self._a, b, self._b,
            beta, c, self._d, d, self._d, byref(item.algorithm), c_void_p(workspace.address),
            c_size_t(workspace.size), stream.handle,
        )  # fmt: skip


def copies(size: int, cold: Device | None) -> int:
    """How many sets of matrices of `size` bytes to take in turn: one, or past twice the L2 cache.

    cold: the device whose cache is to be passed, None where the matrices may lie in it.
    """
    return 1 if cold is None else 1 + min(_MOST_COPIES, -(-2 * cold.l2_bytes // size))


def _layout(dtype: str, rows: int, columns: int, batch: int) -> c_void_p:
    """Column-major matrices without gaps."""
    layout = c_void_p()
    call("cublasLtMatrixLayoutCreate", byref(layout), _TYPES[dtype], c_uint64(rows),
         c_uint64(columns), c_int64(rows))  # fmt: skip
    if batch > 1:
        for attribute, value in (
            (_BATCH_COUNT, c_int32(batch)),
            (_BATCH_OFFSET, c_int64(rows * columns)),
        ):
            size = c_size_t(ctypes.sizeof(value))
            call("cublasLtMatrixLayoutSetAttribute", layout, attribute, byref(value), size)
    return layout
