"""cuSPARSE's product of a Blocked-ELL matrix with a dense one, of int8 or of float16.

The matrix has the given share of zeros and as many random blocks in each of its rows, which is what
the format stores best; the paper that Magicube is from makes such matrices for it, too.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from ctypes import byref, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from autoq.errors import LibraryError
from autoq.libraries.loading import load
from autoq.libraries.ranking import PeerTime, Way, fastest
from autoq.measure.cuda_bench import upload
from autoq.measure.job import Timing
from autoq.runtime.cuda.driver import Device, Memory, Stream

_TYPES = {"float32": 0, "float16": 2, "int8": 3, "int32": 10}
_INDEX_32, _PLAIN, _BLOCKED_ELL = 2, 0, 13
_ORDERS = {"by columns": 1, "by rows": 2}
_FORMS = {
    "int8": (("int32", "int32"), ("int8", "int32")),
    "float16": (("float16", "float32"),),
}
"""Types of the output and of the sums."""
_CHECKED_ROWS = 64
_ALLOWED = {"int8": 0.0, "float16": 0.02}


@functools.cache
def _library() -> ctypes.CDLL:
    found = load("libcusparse", ("libnvJitLink",))
    found.cusparseGetErrorString.restype = ctypes.c_char_p
    return found


def _call(name: str, *args: object) -> None:
    code = getattr(_library(), name)(*args)
    if code:
        raise LibraryError(f"{name}: {_library().cusparseGetErrorString(code).decode()}")


@dataclass(frozen=True)
class BlockedProduct:
    """Sparse [m, k] in square blocks times dense [k, n]; dtype: int8 or float16."""

    m: int
    n: int
    k: int
    block: int
    sparsity: float
    dtype: str


class BlockedEll:
    """The library on the current device."""

    def __init__(self, ordinal: int = 0) -> None:
        self._device = Device(ordinal)
        self._stream = Stream()
        self._handle = c_void_p()
        _call("cusparseCreate", byref(self._handle))
        _call("cusparseSetStream", self._handle, self._stream.handle)
        number = c_int()
        _call("cusparseGetVersion", self._handle, byref(number))
        self.version = f"{number.value // 1000}.{number.value // 100 % 10}.{number.value % 100}"

    def measure(self, product: BlockedProduct, timing: Timing, quick: bool = False) -> PeerTime:
        """The fastest right order and type of the output; raises LibraryError for none.

        quick: only with b by columns and sums as they are, which were fastest on an H200 wherever
        all were timed.
        """
        data = _Data(product)
        ways, kept, refusal = [], [], "no form of the product is supported"
        orders = list(_ORDERS.items())
        forms = _FORMS[product.dtype][:1] if quick else _FORMS[product.dtype]
        for (b_order, y_order), (out, sums) in itertools.product(
            itertools.product(orders[:1] if quick else orders, orders), forms
        ):
            try:
                way, held = self._way(data, (b_order[1], y_order[1]), out, sums)
            except LibraryError as error:
                refusal = str(error)
                continue
            name = f"{product.dtype} to {out}, b {b_order[0]}, y {y_order[0]}"
            check = functools.partial(data.error, out, y_order[1] == _ORDERS["by rows"])
            ways.append(Way(name, "", way, check, held[-1], _ALLOWED[product.dtype]))
            kept.append(held)
        if not ways:
            raise LibraryError(refusal)
        return fastest(ways, self._stream, self._device, timing)

    def _way(
        self, data: _Data, orders: tuple[int, int], out: str, sums: str
    ) -> tuple[Callable[[int], None], Sequence[Memory]]:
        own = data.product
        dense = data.b if orders[0] == _ORDERS["by rows"] else np.ascontiguousarray(data.b.T)
        (columns, values), b = data.matrix.uploaded, upload(dense)
        y = Memory(own.m * own.n * np.dtype(out).itemsize)
        a_of, b_of, y_of = c_void_p(), c_void_p(), c_void_p()
        _call(
            "cusparseCreateBlockedEll", byref(a_of), c_int64(own.m), c_int64(own.k),
            c_int64(own.block), c_int64(data.matrix.columns.shape[1] * own.block),
            c_void_p(columns.address), c_void_p(values.address), c_int(_INDEX_32), c_int(0),
            c_int(_TYPES[own.dtype]),
        )  # fmt: skip
        for found, rows, memory, dtype, order in (
            (b_of, own.k, b, own.dtype, orders[0]), (y_of, own.m, y, out, orders[1]),
        ):  # fmt: skip
            leading = own.n if order == _ORDERS["by rows"] else rows
            _call(
                "cusparseCreateDnMat", byref(found), c_int64(rows), c_int64(own.n),
                c_int64(leading), c_void_p(memory.address), c_int(_TYPES[dtype]), c_int(order),
            )  # fmt: skip
        number = c_float if sums == "float32" else c_int32
        one, none = number(1), number(0)
        arguments = (
            self._handle, c_int(_PLAIN), c_int(_PLAIN), byref(one), a_of, b_of, byref(none), y_of,
            c_int(_TYPES[sums]), c_int(_BLOCKED_ELL),
        )  # fmt: skip
        size = c_size_t()
        _call("cusparseSpMM_bufferSize", *arguments, byref(size))
        buffer = Memory(max(16, size.value))
        held = (columns, values, b, buffer, y)
        last = c_void_p(buffer.address)

        def launch(_: int) -> None:
            assert one.value == 1  # alpha and beta live as long as this function
            _call("cusparseSpMM", *arguments, last)

        launch(0)
        self._device.synchronize()
        return launch, held


class _Blocks:
    """A random matrix in blocks: columns [rows of blocks, count], values [.., block, block]."""

    def __init__(self, m: int, k: int, size: int, sparsity: float, dtype: str) -> None:
        rng = np.random.default_rng(0)
        across, rows = k // size, m // size
        count = max(1, round((1 - sparsity) * across))
        if rows * size != m or across * size != k:
            raise LibraryError(f"blocks of {size} do not fill {m} x {k}")
        order = rng.random((rows, across)).argsort(axis=1)[:, :count]
        self.columns = np.sort(order, axis=1).astype(np.int32)
        self.values = _random(rng, (rows, count, size, size), dtype)

    @cached_property
    def uploaded(self) -> tuple[Memory, Memory]:
        """Columns of the blocks, and their values: each row of blocks as [block, count * block]."""
        rows_of_blocks = np.ascontiguousarray(self.values.transpose(0, 2, 1, 3))
        return upload(self.columns), upload(rows_of_blocks)


_blocks = functools.lru_cache(maxsize=8)(_Blocks)
"""Products with several right sides in a row share a matrix."""


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "int8":
        return rng.integers(-128, 128, shape, np.int8)
    return rng.standard_normal(shape, np.float32).astype(np.float16)


class _Data:
    """A random matrix in blocks, a dense one, and some rows of their product."""

    def __init__(self, product: BlockedProduct) -> None:
        own, rng = product, np.random.default_rng(1)
        self.product = product
        self.matrix = _blocks(own.m, own.k, own.block, own.sparsity, own.dtype)
        self.b = _random(rng, (own.k, own.n), own.dtype)
        self._rows = rng.permutation(own.m)[:_CHECKED_ROWS]
        self._expected = self._reference()

    def _reference(self) -> np.ndarray:
        own, size = self.product, self.product.block
        dense = np.zeros((len(self._rows), own.k // size, size))
        of_block, place = self._rows // size, np.arange(len(self._rows))[:, None]
        chosen = self.matrix.values[of_block, :, self._rows % size]
        dense[place, self.matrix.columns[of_block]] = chosen
        return dense.reshape(len(self._rows), own.k) @ self.b.astype(np.float64)

    def error(self, out: str, by_rows: bool, y: np.ndarray) -> float:
        """The largest difference of an element of some rows, of float16 by their mean square."""
        shape = (self.product.m, self.product.n)
        found = y.view(out).reshape(shape if by_rows else shape[::-1])
        found = (found if by_rows else found.T)[self._rows].astype(np.float64)
        expected = self._expected
        if out == "int8":
            expected = np.clip(expected, -128, 127)
        worst = float(np.abs(found - expected).max())
        if self.product.dtype == "float16":
            worst /= float(np.sqrt((expected**2).mean())) or 1.0
        return worst
