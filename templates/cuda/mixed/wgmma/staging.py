"""How results of the mixed-input product lie in a staging buffer, from which TMA stores them."""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode, swizzled_address
from autoq.templates.cuda.device.memory.tma import tiled_map
from autoq.templates.cuda.mixed.wgmma.config import MixedConfig
from autoq.templates.operators.float_gemm import FloatGemm

_ROW_BYTES = 128
_BLOCK = 64


class Staging:
    """A slice of the results of 64 weight rows: what is staged and stored at a time.

    With the weight on the left the slice is [64 weight rows, width of x], else [width of x, 64
    weight rows], whose rows of float32 are cut into two boxes of 128 bytes. `width` counts rows of
    x. Slices of another tile width than a multiple of theirs overlap: the last one stores some
    results once more, the same ones to the same places. batched: whether y has an axis of products.
    """

    def __init__(self, workload: FloatGemm, config: MixedConfig, batched: bool) -> None:
        self.workload, self.config, self.batched = workload, config, batched
        self.value_bytes = element(workload.out_dtype).bytes
        self.left = workload.weight_left
        if self.left:
            most = min(config.block_m, _ROW_BYTES // self.value_bytes)
            self.width = 1 << (most.bit_length() - 1)
            self.row_bytes, self.boxes = self.width * self.value_bytes, 1
        else:
            self.width = _divisor_width(config.block_m, _ROW_BYTES * 72 // self.value_bytes // 64)
            self.row_bytes, self.boxes = _ROW_BYTES, _BLOCK * self.value_bytes // _ROW_BYTES

    @property
    def box_bytes(self) -> int:
        """Bytes that TMA stores at a time."""
        return self.row_bytes * (_BLOCK if self.left else self.width)

    @property
    def bytes(self) -> int:
        """Bytes of a staging buffer."""
        return self.boxes * self.box_bytes

    @property
    def slices(self) -> int:
        """Parts of a tile's rows of x that are stored one behind the other."""
        return -(-self.config.block_m // self.width)

    def first(self, slice_: Any) -> Any:
        """First of the tile's rows of x that a slice holds."""
        if self.config.block_m % self.width == 0:
            return slice_ * self.width
        return T.min(slice_ * self.width, self.config.block_m - self.width)

    def map(self) -> list[int]:
        """Arguments of the tensor map of y: the box that is stored at a time."""
        rows, columns = self.workload.y_shape[-2:]
        box = [self.row_bytes // self.value_bytes, _BLOCK if self.left else self.width]
        dims, strides = [columns, rows], [columns]
        if self.batched:
            dims, strides = [*dims, self.workload.batch], [*strides, columns * rows]
            box = [*box, 1]
        mode = swizzle_mode(self.row_bytes)
        return tiled_map(self.workload.out_dtype, dims, strides, box, mode)

    def coordinates(self, place: Any, box: Any, row: Any, column: Any) -> tuple[Any, ...]:
        """Where a box of the buffer that begins at a weight row and a row of x lies in y."""
        at = (column, row) if self.left else (row + box * (_BLOCK // self.boxes), column)
        return (*at, place.product) if self.batched else at

    def place(self, row: Any, chunk: Any) -> Any:
        """Byte offset in a box of 16 bytes of a row, as TMA swizzles them."""
        if self.row_bytes == _ROW_BYTES:
            return row * 128 + ((chunk ^ (row % 8)) * 16)
        return swizzled_address(row * self.row_bytes + chunk * 16, self.row_bytes)

    def place_matrix_row(self, thread: Any, group: Any, count: int) -> Any:
        """Byte offset in the buffer of the row of a matrix that a thread names to stmatrix.

        count: groups of eight columns of D, from `group` on, each of two matrices.
        """
        lane = thread.lane
        if self.left:
            return self.place(thread.warp * 16 + lane % 16, group + lane // 16 % count)
        row = (group + lane // 16 % count) * 8 + lane % 8
        return self.place(row, thread.warp * 2 + lane // 8 % 2)

    def place_float(self, thread: Any, group: Any, half: Any, value: Any) -> Any:
        """Byte offset in the buffer of a thread's float32 of a group of eight columns of D.

        half: which of a thread's two rows; value: which of the pair of columns.
        """
        lane = thread.lane
        if self.left:  # the pair lies in 8 bytes
            row = thread.warp * 16 + lane // 4 + 8 * half
            return self.place(row, 2 * group + lane % 4 // 2) + lane % 2 * 8 + 4 * value
        row = group * 8 + lane % 4 * 2 + value
        chunk = thread.warp % 2 * 4 + 2 * half + lane // 16
        return thread.warp // 2 * self.box_bytes + self.place(row, chunk) + lane // 4 % 4 * 4


def _divisor_width(block_m: int, most: int) -> int:
    """A multiple of 8 that divides a tile's rows of x, the largest up to `most` if that does."""
    choices = [rows for rows in range(8, 129, 8) if block_m % rows == 0]
    few = [rows for rows in choices if rows <= most and block_m // rows <= 8]
    return max(few or choices)
