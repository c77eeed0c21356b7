"""How a grouped convolution is cut into tiles: 16 channels a warp, strips of 8 output columns."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.search.lanes import least, most
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.cuda.device.launch.occupancy import allocated
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.epilogue.cuda.parameters.lookups import table_bytes
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target

UNIT = 16
"""Channels that a product takes at once, and bytes of a copy."""
STRIP_W = 8
"""Output columns of a strip: the rows of one ldmatrix matrix."""
# Registers of a thread are given out by eights.
# Pairs of taps, each of which takes up to 4 registers of weights and 4 of fragments.
_MOST_PRODUCTS = 15
# Accumulators, their start values, scales and addresses, by ptxas's reports.
_OTHER_REGISTERS = 36
# Addresses and start values of a reduction in parts, likewise.
_PART_REGISTERS = 8


def group_units(workload: Conv2d) -> int:
    """16-byte units that an output channel reads of a pixel."""
    return ceil_div(workload.c // workload.groups, UNIT)


def quads(workload: Conv2d) -> int:
    """Words of four channels that an output reads of a unit."""
    return ceil_div(min(workload.c // workload.groups, UNIT), 4)


def narrow(workload: Conv2d) -> bool:
    """Whether groups have at most two channels, so that a word holds two taps of a group."""
    return workload.c // workload.groups <= 2


def part_rows(workload: Conv2d) -> int:
    """Filter rows whose weights and fragments a thread holds at once."""
    return min(workload.r, max(1, _MOST_PRODUCTS // ceil_div(workload.s, 2)))


@dataclass(frozen=True)
class GroupedConfig:
    """Tile of a block.

    channels: of a pixel, a multiple of 16; a warp takes 16 of them.
    rows: output rows of a strip, which is 8 columns wide; a warp takes two strips.
    images: images of a tile.
    strips_down: strips of a tile below one another.
    strips_across: strips of a tile side by side.
    stages: tiles whose halos shared memory holds.
    blocks_per_unit: blocks of a multiprocessor that take tiles in turn; None: every tile has a
        block of its own.
    registers_bounded: whether the compiler keeps to the registers that so many blocks share.
    """

    channels: int
    rows: int
    images: int
    strips_down: int
    strips_across: int
    stages: int = 1
    blocks_per_unit: int | None = None
    registers_bounded: bool = False

    @property
    def strips(self) -> int:
        return self.images * self.strips_down * self.strips_across


@dataclass(frozen=True)
class GroupedTiling:
    """A convolution's tiles by a configuration; extents are pixels."""

    workload: Conv2d
    config: GroupedConfig

    @property
    def tile_h(self) -> int:
        return self.config.strips_down * self.config.rows

    @property
    def tile_w(self) -> int:
        return self.config.strips_across * STRIP_W

    @property
    def threads(self) -> int:
        return 32 * ceil_div(self.config.strips, 2) * (self.config.channels // UNIT)

    @property
    def halo_h(self) -> int:
        conv = self.workload
        return (self.tile_h - 1) * conv.stride[0] + (conv.r - 1) * conv.dilation[0] + 1

    @property
    def halo_w(self) -> int:
        conv = self.workload
        return (self.tile_w - 1) * conv.stride[1] + (conv.s - 1) * conv.dilation[1] + 1

    @property
    def phase(self) -> int:
        """Slots of the columns of one residue by the stride."""
        return ceil_div(self.halo_w, self.workload.stride[1])

    @property
    def row_slots(self) -> int:
        """Slots of an input row: eights, so that the swizzle is the same in every row."""
        return ceil_div(self.phase * self.workload.stride[1], 8) * 8

    @property
    def swizzle(self) -> int:
        """Bits of a unit's number that the slot changes: twos in the units of a pixel, up to 3."""
        units = self.config.channels // UNIT
        return min(3, (units & -units).bit_length() - 1)

    @property
    def slabs(self) -> int:
        """Parts of a pixel's channels."""
        return self.workload.c // self.config.channels

    @property
    def halo_slot_bytes(self) -> int:
        """Shared memory of a tile's halo."""
        return self.config.images * self.halo_h * self.row_slots * self.config.channels

    @property
    def staged_bytes(self) -> int:
        """Shared memory of a tile's outputs, which wait there where they are bytes."""
        staged = self.workload.epilogue.out_dtype in INTEGER_RANGE
        return self.outputs * self.config.channels if staged else 0

    @property
    def lookups_at(self) -> int:
        """Byte of shared memory behind halos and outputs, where a table of outputs begins."""
        return self.config.stages * self.halo_slot_bytes + self.staged_bytes

    @property
    def smem_bytes(self) -> int:
        return self.lookups_at + table_bytes(self.workload.epilogue)

    @property
    def tiles(self) -> int:
        """Tiles of one slab."""
        conv = self.workload
        images = ceil_div(conv.n, self.config.images)
        return images * ceil_div(conv.p, self.tile_h) * ceil_div(conv.q, self.tile_w)

    def runs(self, units: int) -> int:
        """Blocks that share the tiles of a slab, on a device of so many multiprocessors."""
        if self.config.blocks_per_unit is None:
            return self.tiles
        return least(self.tiles, most(1, units * self.config.blocks_per_unit // self.slabs))

    @property
    def outputs(self) -> int:
        """Pixels of a tile, those outside the image included."""
        return self.config.images * self.tile_h * self.tile_w

    @property
    def halo_bytes(self) -> int:
        """Bytes of the pixels that a tile's copies read."""
        return self.config.images * self.halo_h * self.halo_w * self.config.channels

    @property
    def registers(self) -> int:
        """Estimate of a thread's registers: weights and fragments of all taps, and sums."""
        conv = self.workload
        words = 4 * conv.s + 2
        if narrow(conv):
            words = 6 * ceil_div(conv.s, 2) - 2 * (conv.s % 4 == 1)
        kept = 8 * self.config.rows + _PART_REGISTERS if self.parts > 1 else 0
        return part_rows(conv) * words + kept + _OTHER_REGISTERS

    def scheduler_warps(self, target: Target) -> int:
        """Warps whose registers a scheduler of a multiprocessor has room for."""
        return target.scheduler_lane_registers // allocated(self.registers)

    @property
    def parts(self) -> int:
        """Parts of the reduction, between which the sums of all rows are kept."""
        return group_units(self.workload) * ceil_div(self.workload.r, part_rows(self.workload))
