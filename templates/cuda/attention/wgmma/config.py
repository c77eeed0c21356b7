"""Knobs of attention on wgmma."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WgmmaAttentionConfig:
    """Knobs of attention on wgmma.

    consumers: warpgroups of a block, each with 64 query rows of its own.
    small: consumers that compute in the blocks of the last pairs, which spread what the last round
        of blocks has over all multiprocessors; 0 where all blocks are equal.
    tile_keys: keys whose scores a consumer holds at a time.
    stages: shared-memory buffers of keys, and of values.
    ahead: whether a consumer computes the scores of a tile beside its softmax of the tile before.
    turns: whether consumers start their products in turn, so that the softmax of one runs beside
        the products of another.
    keeps_powers: whether a consumer of bytes keeps the powers of its rows' scores in registers, a
        word each, until their sums are known, instead of computing them again.
    cubics: of 16 powers of two, how many are polynomials of ordinary arithmetic, to 1e-4, which is
        less than shares of floats are rounded by; none of bytes.
    gives_registers: whether the warps that load are a warpgroup, which leaves most of its registers
        to consumers; otherwise one warp loads.
    blocks_per_sm: blocks that the register allocation leaves room for on a multiprocessor.
    persistent: whether a block computes the rows of several of bytes, one after the other, so that
        the next queries, keys and values arrive meanwhile.
    """

    consumers: int
    small: int
    tile_keys: int
    stages: int
    ahead: bool
    turns: bool
    keeps_powers: bool
    cubics: int
    gives_registers: bool
    blocks_per_sm: int
    persistent: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block: consumers, and the warps that load."""
        return 128 * self.consumers + (128 if self.gives_registers else 32)

    @property
    def rows(self) -> int:
        """Query rows of a block."""
        return 64 * self.consumers
