"""The dense product of the columns that are left of a tile-wise weight, and words of y of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import is_four_bit, moved_as
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.composed.pruned_product import (
    PrunedProduct,
    pruned_product,
    takes_constants_alone,
)
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.scattered.words import WORD_BYTES, pack_words
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import IN_TILES
from autoq.templates.workload import Constants

_MULTIPLE = 16
"""Of columns: whole vectors are laid out."""
_ENTRY_WORDS = 4
_OF_COLUMNS = ("weight", "bias", "float_bias", "scale")
"""Constants that have a value for each column of y, or one for all."""


def compact_of(workload: object) -> CompactProduct | None:
    """The product of what is left of a tile-wise weight; None for all others.

    Rows of y are whole words, and no residual and no scales of rows follow the sums.
    """
    view = pruned_product(workload, *IN_TILES)
    if view is None or not takes_constants_alone(view.workload):
        return None
    (y,) = view.workload.outputs
    words = not is_four_bit(y.dtype) and view.n * y.element.bytes % WORD_BYTES == 0
    return CompactProduct(view) if words and indexable(y.shape) else None


@dataclass(frozen=True)
class CompactProduct:
    """A tile-wise product over all of k of the columns that are left."""

    view: PrunedProduct

    @cached_property
    def columns(self) -> int:
        """Most columns that are left, in whole vectors."""
        left = max(1, min(self.view.sparsity.columns, self.view.n))
        return -(-left // _MULTIPLE) * _MULTIPLE

    @cached_property
    def dense(self) -> Gemm:
        """The product of these."""
        work = self.view.workload
        assert not self.view.scaled
        return replace(work, n=self.columns, sparsity=None)

    @property
    def out_bytes(self) -> int:
        """Of an output."""
        return element(self.view.epilogue.out_dtype).bytes

    @property
    def row_words(self) -> int:
        """Words of a row of y."""
        return self.view.n * self.out_bytes // WORD_BYTES

    def specs(self, tiles: int) -> tuple[TensorSpec, TensorSpec]:
        """Of so many tiles of columns the first entry and how many; entries of words of y."""
        return (
            TensorSpec("spans", (tiles, 2), "int32"),
            TensorSpec("places", (self.row_words + tiles, _ENTRY_WORDS), "int32"),
        )

    def functions(self, source: str, row_words: int) -> DeviceNamespace:
        """The functions of a source; row_words: from a row to the next in shared memory."""
        sizes = {"M": self.view.m, "ROW_WORDS": self.row_words, "ROW_PITCH": row_words}
        types = {"OUT": moved_as(self.view.epilogue.out_dtype)}
        return DeviceNamespace("expand", source, types, sizes)

    def pack(
        self, constants: Constants, tiles: int, width: int
    ) -> tuple[Constants, tuple[np.ndarray, np.ndarray]]:
        """The dense product's constants, and `specs` of so many tiles of `width` columns.

        Columns that no weight has are 0. A tile writes from its first column to the next one's.
        """
        columns = self.columns_left(constants)
        left = {
            name: self._left(np.asarray(constants[name]), columns)
            for name in _OF_COLUMNS
            if np.shape(constants.get(name))[:1] == (self.view.n,)
        }
        n = self.view.n
        own = np.full((tiles, width), n)
        own.reshape(-1)[: len(columns)] = columns
        firsts = np.append(own[:, 0], n)
        firsts[0] = 0
        ranges = np.stack([firsts[:-1], np.diff(firsts)], axis=1)
        places = np.zeros(self.specs(tiles)[1].shape, np.int32)
        dead = self.view.of_no_weight(constants)
        return {**constants, **left}, (pack_words(ranges, own, dead, places), places)

    def columns_left(self, constants: Constants) -> np.ndarray:
        """Which columns are left, int64."""
        found = self.view.sparsity.tiles_of(self.view.weight(constants))
        return np.concatenate([np.zeros(0, np.int64), *(tile.columns for tile in found)])

    def _left(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        filled = np.zeros((self.columns, *values.shape[1:]), values.dtype)
        filled[: len(columns)] = values[columns]
        return filled
