"""The tile of one operand of a batched product: where its rows lie, and how it is copied."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.mma_sync.config import UNIT_BYTES
from autoq.templates.cuda.mma_sync.tiling import swizzled_offset

_LEAST_ASYNCHRONOUS = 4
_TILE_K = 32


@dataclass(frozen=True)
class OperandTile:
    """A stage's tile of x or of other: `rows` rows of `row_bytes` bytes, as they lie in memory.

    A matrix of the operand has `most_rows` rows of `most_bytes` bytes, `pitch` bytes apart, in an
    array of `array_bytes`. Where `along_k` its rows run along the reduction, else its columns are
    those of y and its rows are values of k. `run` is how many consecutive columns of y a thread
    holds of rows along k of other, 0 for rows in their own order. `start` is the byte of a stage
    where the tile begins, and `size` the bytes of a value. `paired`: of rows of k, a thread
    multiplies eight consecutive bytes of k instead of four and the four 16 bytes on.
    """

    rows: int
    row_bytes: int
    most_rows: int
    most_bytes: int
    pitch: int
    array_bytes: int
    along_k: bool
    run: int
    start: int
    size: int
    has_cp_async: bool
    paired: bool = False

    @property
    def alignment(self) -> int:
        """Bytes, 16 at most, of which every row's start and length is a multiple."""
        return math.gcd(self.most_bytes, self.pitch, UNIT_BYTES)

    @property
    def asynchronous(self) -> bool:
        """Whether cp.async brings it, 4 bytes at least; else its units wait in registers."""
        return self.has_cp_async and self.alignment >= _LEAST_ASYNCHRONOUS

    @property
    def piece(self) -> int:
        """Bytes of a copy."""
        return self.alignment if self.asynchronous else UNIT_BYTES

    @property
    def pieces(self) -> int:
        """Copies of a row."""
        return self.row_bytes // self.piece

    @property
    def copies(self) -> int:
        """Copies of a stage."""
        return self.rows * self.pieces

    def rounds(self, threads: int) -> int:
        """Copies of each thread."""
        return ceil_div(self.copies, threads)

    def held_words(self, threads: int) -> int:
        """Registers of a thread that hold what waits for its stage."""
        return 0 if self.asynchronous else self.rounds(threads) * self.unit_words

    @property
    def shifts(self) -> bool:
        """Whether units start within words, so that they are shifted out of five of them."""
        return self.alignment < _LEAST_ASYNCHRONOUS

    @property
    def unit_words(self) -> int:
        """Registers that hold a unit that waits."""
        return UNIT_BYTES // 4 + (1 if self.shifts else 0)

    def row_of(self, slot: Any) -> Any:
        """The row of the tile that lies in a slot of shared memory, an integer or an expression.

        Columns of y: those of a thread's accumulators become consecutive (`row_channels`). Values
        of k of bytes: a matrix of ldmatrix.trans has pairs of k four apart, so that the pairs of
        two matrices are the four k that a thread multiplies.
        """
        if self.run:
            group, within = slot // (4 * self.run), slot % (4 * self.run)
            pair, thread = within // 8, within % 8 // 2
            return group * (4 * self.run) + thread * self.run + pair * 2 + slot % 2
        if self.along_k:
            return slot
        row = slot
        if self.size == 1:
            within = slot % 16
            row = slot // 16 * 16 + within % 8 // 2 * 4 + within // 8 * 2 + slot % 2
        if not self.paired:
            return row
        tile, byte = _TILE_K // self.size, row * self.size % _TILE_K
        return row // tile * tile + (byte % 16 // 4 * 8 + byte // 16 * 4 + byte % 4) // self.size

    def place(self, index: Any) -> tuple[Any, Any]:
        """Row of the tile and byte in it that a copy reads."""
        return self.row_of(index // self.pieces), index % self.pieces * self.piece

    def target(self, index: Any) -> Any:
        """Byte of a stage that a copy fills."""
        byte = index % self.pieces * self.piece
        unit = swizzled_offset(self.row_bytes, index // self.pieces, byte // UNIT_BYTES)
        return self.start + unit + byte % UNIT_BYTES

    def matrix(self, lane: Any, k_tile: int, first_column: Any) -> Any:
        """Byte of a stage of the unit that a lane names to ldmatrix.trans, of rows of k.

        Four matrices give a thread its share of a k-tile of 16 columns from `first_column` on. Of
        bytes all are of one unit; of floats the first two are of one and the last two of the next.
        """
        unit = first_column * self.size // UNIT_BYTES
        if self.size == 1:
            slot = k_tile * _TILE_K + lane
        else:
            slot, unit = k_tile * (_TILE_K // 2) + lane % 16, unit + lane // 16
        return self.start + swizzled_offset(self.row_bytes, slot, unit)
