"""How a tile's sums become rows of y: what follows them, and where they lie on their way."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from autoq.templates.arrays.element import element
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.composed.pruned_product import PrunedProduct
from autoq.templates.cuda.device.scattered.words import pack_words
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue
from autoq.templates.sparse.pruned_matrix import Tile
from autoq.templates.workload import Constants

ENTRY_WORDS = 4
"""Words of the entry of a word of y."""
_PAD = 8
"""Words behind a row of sums, of which the first is 0."""


class TileOutputs(ABC):
    """The outputs of a product in tiles, of a kernel whose instructions have `width` columns."""

    @property
    @abstractmethod
    def product(self) -> PrunedProduct: ...

    @property
    @abstractmethod
    def width(self) -> int:
        """Columns of an instruction."""

    @property
    @abstractmethod
    def tiles(self) -> int:
        """Most tiles."""

    @property
    @abstractmethod
    def paired(self) -> bool:
        """Whether the two rows of a thread are neighbours, or eight apart."""

    @property
    def by_columns(self) -> bool:
        """Whether columns of y are the rows of an instruction, and rows of y are `paired`."""
        return False

    @property
    def out_bytes(self) -> int:
        """Bytes of an output."""
        return element(self.product.epilogue.out_dtype).bytes

    @property
    def in_words(self) -> bool:
        """Whether threads finish their own columns, and whole words of y are put together.

        What follows them must not depend on the place in y, as residuals and scales of rows do.
        """
        epilogue = self.product.epilogue
        own = epilogue.residual_dtype is None and not epilogue.row_scale
        return own and self.product.n * self.out_bytes % 4 == 0

    @property
    def terms(self) -> int:
        """Columns of the epilogue's terms: those of tiles, or those of y."""
        return self.tiles * self.width if self.in_words else self.product.n

    @property
    def terms_of_tile(self) -> int:
        """Words of the epilogue's terms that a consumer keeps in shared memory."""
        return 3 * self.width if self.in_words else 0

    @property
    def row_pitch(self) -> int:
        """Words of a row of outputs, or of sums, on their way to y."""
        if not self.in_words:
            return -(-self.width // 32) * 32 + _PAD
        pad = 1 if self.out_bytes == 1 and self.paired else 2 * self.out_bytes
        return -(-self.width * self.out_bytes // 128) * 32 + pad

    @property
    def epilogue(self) -> ThreadEpilogue:
        """That of a thread's few columns of a row of y."""
        values = 4 if self.in_words else math.gcd(self.product.n, 4)
        return self.product.thread_epilogue(self.terms, values)

    @property
    def places_spec(self) -> TensorSpec:
        """Places of columns, or the entries of words."""
        n = self.product.n
        if self.in_words:
            return TensorSpec("places", (n * self.out_bytes // 4 + self.tiles, 4), "int32")
        return TensorSpec("places", (-(-n // 4) * 4,), "int32")

    def place(
        self, ordered: Sequence[Tile], constants: Constants, tiles: np.ndarray, places: np.ndarray
    ) -> np.ndarray:
        """Fill in where outputs go; which column of y each of the epilogue's terms is of, n none.

        ordered: tiles as the kernel has them. tiles: int32 [tiles, 4], whose last two are the first
        column of y that each writes and how many; of words they become the first of its entries
        and their number.
        """
        n = self.product.n
        if not self.in_words:
            places[:] = self.row_pitch - _PAD
            for tile in ordered:
                places[tile.columns] = slot(np.arange(len(tile.columns)))
            return np.arange(n)
        columns = np.full((self.tiles, self.width), n)
        for number, tile in enumerate(ordered):
            columns[number, : len(tile.columns)] = tile.columns
        dead = self.product.of_no_weight(constants)
        tiles[:, 2:] = pack_words(tiles[:, 2:].copy(), columns, dead, places)
        return columns.reshape(-1)


def slot(columns: np.ndarray) -> np.ndarray:
    """Where sums of a tile's columns lie: four columns of neighbouring lanes in different banks."""
    return columns ^ (columns >> 5 & 3)


def first_columns(tiles: Sequence[Tile], n: int) -> list[int]:
    """Where the columns that each tile writes begin, and the end of the last one's."""
    return [0, *(int(tile.columns[0]) for tile in tiles[1:]), n]
