"""How the rows of arrays are shared among the threads of a CUDA kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoq.templates.arrays.broadcasting import dense_strides, merged_axes
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for
from autoq.templates.target import Target

LONGEST_ROW = 8192
"""Elements of a row that _MOST_LANES hold in registers, 32 each."""
_WARP = 32
_ROW_OF_WARP = 32
"""Elements of a lane up to which a warp takes a row."""
_LEAST_LANES, _MOST_LANES = 4, 256
_MOST_ELEMENTS, _MOST_ACCESSES = 12, 4
"""What a lane holds of a row before the row gets more lanes, if it may have more."""
_LEAST_THREADS = 128
"""Threads of a multiprocessor that are enough to wait for memory with."""
_THREADS = (256, 128)
"""Threads of a block whose rows have a warp at most."""
_NARROW_THREADS = 512
"""Threads of a multiprocessor from which on those of narrow accesses take two rows each."""
_BYTES = ("int8", "uint8")
_SHARING_THREADS = 512
"""The same for warps that read more of columns than of rows: of 745 on an H200 (3072 rows of 768
bytes) two rows each take 12 us of 779 off BERT, of 248 they cost it 6 of 343; 382 are not tried."""


@dataclass(frozen=True)
class RowArrays:
    """Operands that broadcast to `shape`, whose last `inner` axes are its rows.

    Every operand either has all elements of a row or one that stands for them. constants: how many
    of the last ones no kernel writes.
    """

    shape: tuple[int, ...]
    inner: int
    operands: tuple[TensorSpec, ...]
    constants: int = 0

    @property
    def row(self) -> int:
        """Elements of a row."""
        return math.prod(self.shape[len(self.shape) - self.inner :])

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return math.prod(self.shape[: len(self.shape) - self.inner])

    @property
    def held(self) -> int:
        """Values that a lane has for each of its elements of a row, constants included."""
        return sum(map(self.spans, range(len(self.operands))))

    @property
    def shares_columns(self) -> bool:
        """Whether rows of bytes are computed with numbers of the columns, which all rows share."""
        spanning = [k for k in range(len(self.operands)) if self.spans(k)]
        of_rows = [self.operands[k].dtype for k in spanning if self.varies(k)]
        return 0 < len(of_rows) < len(spanning) and {*of_rows} <= {*_BYTES}

    def spans(self, k: int) -> bool:
        """Whether operand k has an element for each of a row's."""
        shape = self._padded(k)
        return math.prod(shape[len(shape) - self.inner :]) > 1

    def stays(self, k: int) -> bool:
        """Whether operand k is a constant."""
        return k >= len(self.operands) - self.constants

    def varies(self, k: int) -> bool:
        """Whether operand k differs between rows."""
        shape = self._padded(k)
        return math.prod(shape[: len(shape) - self.inner]) > 1

    def base(self, k: int, row: str) -> str:
        """C++ of the first element of `row` in operand k."""
        outer = len(self.shape) - self.inner
        columns = [dense_strides(item.shape, len(self.shape))[:outer] for item in self.operands]
        sizes, strides = merged_axes(self.shape[:outer], columns)
        terms = []
        for axis, stride in enumerate(strides[k]):
            after = math.prod(sizes[axis + 1 :])
            if stride:
                # The last division is by 1, the first remainder of a number that is small enough.
                index = row if after == 1 else f"{row} / {after}"
                terms.append(f"{index} * {stride}" if axis == 0 else
                             f"{index} % {sizes[axis]} * {stride}")  # fmt: skip
        return " + ".join(terms) or "0"

    def _padded(self, k: int) -> tuple[int, ...]:
        shape = self.operands[k].shape
        return (1,) * (len(self.shape) - len(shape)) + tuple(shape)


_OTHER_REGISTERS = 24
"""Registers of a thread beside values of its elements."""


@dataclass(frozen=True)
class RowPlan:
    """`lanes` threads hold a row in vectors of `vector` elements; `threads` are a block's.

    A thread takes `together` rows at a time, whose loads and shuffles overlap. More lanes than a
    warp has are a block of their own.
    """

    vector: int
    lanes: int
    threads: int
    together: int

    def elements(self, arrays: RowArrays) -> int:
        """Elements of a row that a lane has places for."""
        return blocks_for(arrays.row, self.lanes * self.vector) * self.vector

    def blocks(self, arrays: RowArrays) -> int:
        """Blocks of the kernel."""
        return blocks_for(arrays.rows, self.threads // self.lanes * self.together)

    def has_room(self, arrays: RowArrays, target: Target) -> bool:
        """Whether all blocks run at once where their threads hold constants from the start."""
        each = _OTHER_REGISTERS + self.elements(arrays) * self.together * arrays.held
        together = blocks_for(self.blocks(arrays), target.units)
        return together * self.threads * each <= target.register_file

    @classmethod
    def of(cls, arrays: RowArrays, out_dtype: str | None, target: Target) -> RowPlan:
        """The plan for arrays and an output that spans rows, None where it has one value a row.

        A row has as few lanes as hold it with _MOST_ELEMENTS and _MOST_ACCESSES each, and a warp at
        most if all rows have enough threads then: blocks that share a row cost two barriers.
        """
        dtypes = [item.dtype for k, item in enumerate(arrays.operands) if arrays.spans(k)]
        vector = row_vector(arrays.row, [*dtypes, out_dtype] if out_dtype else dtypes)
        many = arrays.rows * _WARP >= _LEAST_THREADS * target.units
        most = _WARP if many and arrays.row <= _WARP * _ROW_OF_WARP else _MOST_LANES
        vectors = min(_MOST_ACCESSES, max(_MOST_ELEMENTS // vector, 1))
        lanes = _LEAST_LANES
        while lanes < most and lanes * vectors * vector < arrays.row:
            lanes *= 2
        if lanes > _WARP:
            return cls(vector, lanes, lanes, 1)
        threads_of_unit = arrays.rows * lanes / target.units
        narrow = vector == 1 and threads_of_unit >= 2 * _NARROW_THREADS
        bytes_out = out_dtype in _BYTES and arrays.shares_columns and lanes == _WARP
        together = 2 if narrow or (bytes_out and threads_of_unit >= _SHARING_THREADS) else 1

        def busiest(threads: int) -> int:
            """Threads that the multiprocessor with most blocks gets."""
            blocks = blocks_for(arrays.rows, threads // lanes * together)
            return blocks_for(blocks, target.units) * threads

        return cls(vector, lanes, min(_THREADS, key=busiest), together)


def row_vector(row: int, dtypes: Sequence[str | None]) -> int:
    """Elements of one access: 16 bytes of the widest array, as far as they divide a row."""
    return math.gcd(row, 4 if "float32" in dtypes else 16)
