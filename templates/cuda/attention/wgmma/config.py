"""Knobs of attention on wgmma."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.cuda.device.launch.registers import RegisterBudget, register_budget


@dataclass(frozen=True)
class WgmmaAttentionConfig:
    """Knobs of attention on wgmma.

    consumers: warpgroups of a block, each with 64 query rows of its own.
    tile_keys: keys whose scores a consumer holds at a time.
    stages: shared-memory buffers of keys, and of values.
    ahead: whether a consumer computes the scores of a tile beside its softmax of the tile before.
    turns: whether consumers start their products in turn, so that the softmax of one runs beside
        the products of another.
    cubics: of 16 powers of two, how many are polynomials of ordinary arithmetic.
    blocks_per_sm: blocks that the register allocation leaves room for on a multiprocessor.
    """

    consumers: int
    tile_keys: int
    stages: int
    ahead: bool
    turns: bool
    cubics: int
    blocks_per_sm: int

    @property
    def threads(self) -> int:
        """Of a block: consumers, and a warpgroup of which one thread loads."""
        return 128 * (self.consumers + 1)

    @property
    def rows(self) -> int:
        """Query rows of a block."""
        return 64 * self.consumers

    @property
    def registers(self) -> RegisterBudget:
        """Of a thread."""
        return register_budget(self.consumers, self.blocks_per_sm)
