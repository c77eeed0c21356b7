"""Tile-wise products on sparse tensor cores: the 2:4 product of k in another order, and its way."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.pruned.product import PrunedProduct
from autoq.templates.cuda.pruned.two_four.config import ROW_BYTES, TwoFourConfig, TwoFourTiling
from autoq.templates.cuda.pruned.two_four.view import TwoFourView, view_of
from autoq.templates.sparse.sparsity import Sparsity

ENTRY_WORDS = 4
"""Words of the entry of a word of y."""
BLOCK_COLUMNS = 64
"""Columns of the weight that are put together as words of y at once."""


@dataclass(frozen=True)
class ArrangedTiling:
    """A tile-wise product cut by the configuration of the 2:4 product that computes it."""

    view: PrunedProduct
    config: TwoFourConfig

    @property
    def sparse(self) -> TwoFourTiling:
        """The 2:4 product: of the columns that are left, and of as much k as any weight needs."""
        view = self._two_four
        return TwoFourTiling(view, self.config)

    @property
    def _two_four(self) -> TwoFourView:
        work = self.view.workload
        columns = -(-max(1, min(self.view.sparsity.columns, work.n)) // self.unit_columns)
        columns *= self.unit_columns
        view = view_of(replace(work, n=columns, k=self.depth, sparsity=Sparsity.two_four()))
        assert view is not None
        return view

    @property
    def unit_columns(self) -> int:
        """Columns of the weight of the blocks of a cluster, which share rows of x."""
        config = self.config
        return BLOCK_COLUMNS * config.consumers * config.blocks * config.cluster

    @property
    def unit(self) -> int:
        """Groups of four k of a stage."""
        return ROW_BYTES // self.view.value.bytes // 4

    @property
    def depth(self) -> int:
        """Most k in order: two of every four at least are some of x's."""
        unit = 4 * self.unit
        return -(-2 * self.view.k // unit) * unit

    @property
    def arranged(self) -> TensorSpec:
        """x in order: rows of 128 bytes, all of a stage of k behind each other."""
        x, each = self.view.workload.inputs[0], 4 * self.unit
        return TensorSpec("arranged_x", (self.depth // each * self.view.m, each), x.dtype)

    @property
    def row_words(self) -> int:
        """Words of a row of y."""
        return self.view.n * self.sparse.view.out_bytes // 4

    @property
    def blocks(self) -> int:
        """Most blocks of columns."""
        return self.sparse.weight_tiles * self.sparse.row_blocks

    @property
    def order_spec(self) -> TensorSpec:
        """Stages of x and tiles of weights, then which k each place has, two a word."""
        return TensorSpec("order", (4 + self.depth // 2,), "int32")

    @property
    def stages_spec(self) -> TensorSpec:
        """Where stages of each tile of weights begin among all, and which of x's each one is."""
        tiles = self.sparse.weight_tiles
        return TensorSpec("stages", (tiles + 1 + tiles * self.sparse.k_stages,), "int32")

    @property
    def spans_spec(self) -> TensorSpec:
        """Of each block of columns its first entry, and how many it has."""
        return TensorSpec("spans", (self.blocks, 2), "int32")

    @property
    def places_spec(self) -> TensorSpec:
        """Entries of words of y."""
        return TensorSpec("places", (self.row_words + self.blocks, ENTRY_WORDS), "int32")
