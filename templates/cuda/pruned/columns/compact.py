"""The dense product of the columns that are left of a tile-wise weight, and the way of its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import moved_as
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.pruned.product import PrunedProduct
from autoq.templates.cuda.pruned.tile_wise.words import WORD_BYTES, pack_words
from autoq.templates.cuda.pruned.tile_wise.words_source import STORE_WORDS
from autoq.templates.cuda.wgmma.config import WgmmaConfig
from autoq.templates.cuda.wgmma.expansion import Expansion, pitch
from autoq.templates.operators.gemm import Gemm
from autoq.templates.workload import Constants

_MULTIPLE = 16
"""Of columns: whole vectors are laid out."""
_ENTRY_WORDS = 4
_OF_COLUMNS = ("bias", "float_bias", "scale")
"""Constants that have a value for each column of y, or one for all."""

_EXPAND = (
    r"""
struct Constants {};
"""
    + STORE_WORDS.replace("AT_ONCE", "4")
    .replace("READ_ROW", "(r + i * step)")
    .replace("ENTRY_AT", "__ldg")
    + r"""
__device__ __forceinline__ void expand(
    const void* rows, const void* spans, const void* places, void* y, int tile, int first_row,
    int lane) {
  const int2 span = __ldg(static_cast<const int2*>(spans) + tile);
  const int4 own = make_int4(0, 0, span.x, span.y);
  store_rows(static_cast<const unsigned*>(rows), Constants{}, places,
             read_entry(places, own, lane), static_cast<OUT*>(y), first_row,
             min(16, M - first_row), own, lane);
}
"""
)


@dataclass(frozen=True)
class CompactProduct:
    """A tile-wise product of bytes over all of k of the columns that are left."""

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

    def tiles(self, config: WgmmaConfig) -> int:
        """Tiles of columns."""
        return -(-self.columns // config.block_n)

    def specs(self, config: WgmmaConfig) -> tuple[TensorSpec, TensorSpec]:
        """Of each tile its first entry and how many it has; entries of words of y."""
        words, tiles = self.view.n * self.out_bytes // WORD_BYTES, self.tiles(config)
        return (
            TensorSpec("spans", (tiles, 2), "int32"),
            TensorSpec("places", (words + tiles, _ENTRY_WORDS), "int32"),
        )

    def expansion(self, config: WgmmaConfig) -> Expansion:
        """How the dense product's rows become those of y."""
        return Expansion(*self.specs(config), self._expand(config))

    def _expand(self, config: WgmmaConfig) -> DeviceFunction:
        sizes = {
            "M": self.view.m, "ROW_WORDS": self.view.n * self.out_bytes // WORD_BYTES,
            "ROW_PITCH": pitch(config, self.out_bytes) // WORD_BYTES,
        }  # fmt: skip
        types = {"OUT": moved_as(self.view.epilogue.out_dtype)}
        return DeviceNamespace("expand", _EXPAND, types, sizes).function("expand")

    def columns_left(self, constants: Constants) -> np.ndarray:
        """Which columns are left, int64."""
        found = self.view.sparsity.tiles_of(self.view.weight(constants))
        return np.concatenate([np.zeros(0, np.int64), *(tile.columns for tile in found)])

    def constants(self, constants: Constants, columns: np.ndarray) -> Constants:
        """Those of the dense product: nothing in the columns that no weight has."""
        left = {
            name: np.asarray(constants[name])
            for name in ("weight", *_OF_COLUMNS)
            if np.shape(constants.get(name))[:1] == (self.view.n,)
        }
        return {**constants, **{name: self._left(one, columns) for name, one in left.items()}}

    def _left(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        filled = np.zeros((self.columns, *values.shape[1:]), values.dtype)
        filled[: len(columns)] = values[columns]
        return filled

    def words(
        self, config: WgmmaConfig, columns: np.ndarray, dead: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """`specs`; a tile writes from its first column to the next one's. dead: [n] outputs."""
        n, tiles = self.view.n, self.tiles(config)
        own = np.full((tiles, config.block_n), n)
        own.reshape(-1)[: len(columns)] = columns
        firsts = np.append(own[:, 0], n)
        firsts[0] = 0
        spans = np.stack([firsts[:-1], np.diff(firsts)], axis=1)
        places = np.zeros(self.specs(config)[1].shape, np.int32)
        return pack_words(spans, own, dead, places), places
