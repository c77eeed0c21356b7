"""Knobs of the fused kernel, and what follows from them: groups, the ring of keys, registers."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.cuda.device.launch.occupancy import allocated, blocks_held
from autoq.templates.cuda.sparse_attention.quantisation import Quantisation
from autoq.templates.cuda.sparse_attention.teams import Teams, copies_in_bulk
from autoq.templates.operators.sparse_attention import GROUP, SparseAttention
from autoq.templates.target import Target

STEP = 32
"""Keys of a step: the reduction of a product of bytes."""

READ_AHEAD = 2
"""Steps whose words a warp has read ahead."""

_MOST_ITEMS = 2
"""Parts of a pair's queries that a block which makes bytes of keys and values attends to."""

_STEP_REGISTERS = {64: 48, 128: 82}
"""Of a step and what is read ahead, by the bytes of a row, where nothing limits ptxas."""
_COPY_REGISTERS = 8
"""More where threads copy keys themselves."""
_SLOT_BYTES, _ITEM_BYTES = 16, 16
"""Two barriers of a slot, and which queries a block has."""


@dataclass(frozen=True)
class FusedConfig:
    """Configuration of the fused kernel.

    warps: warps of a block.
    groups: groups of eight queries of a warp, whose sums it keeps in registers.
    slot: keys that come to shared memory together.
    slots: how many such blocks of keys the ring holds.
    ahead: how many of them are on their way while groups go along the others.
    headroom: by how many powers of two a score may exceed what shares are relative to, before sums
        are rescaled; shares have as many bits less.
    """

    warps: int
    groups: int
    slot: int
    slots: int
    ahead: int
    headroom: int


@dataclass(frozen=True)
class FusedTiling:
    """Sparse attention cut by a configuration."""

    workload: SparseAttention
    config: FusedConfig

    @property
    def quantisation(self) -> Quantisation:
        """How k and v become bytes."""
        return Quantisation(self.workload, self.padded_keys, queries=False, slot=self.config.slot)

    @property
    def wide(self) -> int:
        """Bytes of a row of q, k or v."""
        return self.quantisation.wide

    @property
    def planes(self) -> int:
        """Bytes of a share."""
        return self.workload.softmax_bits // 8

    @property
    def padded_keys(self) -> int:
        """Keys in whole slots."""
        return self.key_blocks * self.config.slot

    @property
    def key_blocks(self) -> int:
        return -(-self.workload.keys // self.config.slot)

    @property
    def window(self) -> int:
        """Slots that groups go along at a time."""
        return self.config.slots - self.config.ahead

    @property
    def group_rows(self) -> int:
        """Queries in whole groups."""
        return self.quantisation.group_rows

    @property
    def of_block(self) -> int:
        """Groups of a block."""
        return self.config.warps * self.config.groups

    @property
    def parts(self) -> int:
        """Blocks that share the queries of a pair."""
        return -(-self.workload.groups // self.of_block)

    @property
    def blocks(self) -> int:
        return self.workload.pairs * self.parts

    @property
    def threads(self) -> int:
        return 32 * self.config.warps

    @property
    def steps(self) -> int:
        """Most steps of all warps, one behind each that ends it, and those read ahead of the last.

        A step that time forces may hold fewer keys than it could.
        """
        full = self.workload.structure.blocks // STEP + self.workload.groups * self.key_blocks
        return full + self.parts * self.config.warps + READ_AHEAD

    @property
    def row_bytes(self) -> int:
        """A key with its value."""
        return 2 * self.wide

    @property
    def smem_bytes(self) -> int:
        """Queries, the ring, a factor for each query, and who waits for slots."""
        factors, barriers = 4 * self.of_block * GROUP, self.config.slots * _SLOT_BYTES
        return self.query_bytes + self.ring_bytes + factors + barriers + _ITEM_BYTES

    @property
    def query_bytes(self) -> int:
        return self.of_block * GROUP * self.wide

    @property
    def ring_bytes(self) -> int:
        """Keys and values that are there at once."""
        return self.config.slots * self.config.slot * self.row_bytes

    def teams(self, target: Target) -> Teams | None:
        """Those of attending blocks that make bytes of keys and values first, which wait in their
        rings; None where another kernel does that.
        """
        once = self.blocks <= target.units
        twice = self.blocks <= _MOST_ITEMS * target.units and self.resident(target) == 1
        if not copies_in_bulk(target) or not (once or twice):
            return None
        blocks = min(self.blocks, target.units)
        found = self.quantisation.teams(blocks, self.threads, self.ring_bytes)
        # What warps find lies where queries do later.
        return found if found and found.found_bytes <= self.query_bytes else None

    def registers(self, target: Target) -> int:
        """Estimate of a thread's registers: sums, what is read ahead, a step.

        With fewer, ptxas would keep sums in local memory in the loop over steps.
        """
        sums = self.wide // 4 * self.planes
        copies = 0 if copies_in_bulk(target) else _COPY_REGISTERS
        return self.config.groups * (sums + 4) + _STEP_REGISTERS[self.wide] + copies

    def resident(self, target: Target) -> int:
        """Blocks that a multiprocessor holds at once; 0 where one does not fit."""
        registers = allocated(self.registers(target))
        return blocks_held(self.smem_bytes, registers, self.threads, target)
