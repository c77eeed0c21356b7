"""The halo of a convolution's output tile in shared memory, and where each filter tap reads it.

The input pixels that an output tile needs are loaded once, one pixel's channels per row of
`row_bytes`. A filter tap is then the same matrix read from another first row: wgmma's shared-memory
descriptors may start at any row, and their groups of eight rows may lie any number of rows apart
(exact on an H200 with 64-byte and 128-byte swizzle and base_offset 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from autoq.search.lanes import choose, most
from autoq.templates.cuda.halo.tile_shape import ShapedTile

BLOCK_ROWS = 64
"""Rows of one wgmma block: output pixels, some of them outside the image."""

WIDTH = 8
"""Output columns of a box tile: the rows of one core matrix."""


@dataclass(frozen=True)
class HaloTile(ShapedTile):
    """An output tile of `images x height x width` pixels of a stride-1 convolution.

    flat: blocks run over whole halo rows, so that their groups of eight are contiguous and the
    columns between `width` and `halo_width` are computed and thrown away. Otherwise the tile is
    eight columns wide and a group is one of its rows.
    row_bytes: of the channels in one shared-memory row; 16 takes two taps per 32-byte step.
    """

    @property
    def scattered(self) -> bool:
        """Whether neighbouring shared-memory rows come from different images."""
        return False

    @cached_property
    def halo_height(self) -> int:
        return self.shape.height + (self.workload.r - 1) * self.workload.dilation[0]

    @cached_property
    def halo_width(self) -> int:
        return self.shape.width + (self.workload.s - 1) * self.workload.dilation[1]

    @cached_property
    def halo_rows(self) -> int:
        """Shared-memory rows that one load fills."""
        return self.shape.images * self.halo_height * self.halo_width

    @cached_property
    def load_bytes(self) -> int:
        """Bytes of one load: one chunk of channels of the whole halo."""
        return self.halo_rows * self.row_bytes

    @cached_property
    def touched_bytes(self) -> int:
        """Bytes from a slot's start that wgmma may read, rows thrown away included."""
        last = self.block_row(self.blocks - 1) + self.tap_row(self.steps - 1) + self.pair_rows
        last += 7 * self.group_rows + 7
        return (last + 1) * self.row_bytes

    @cached_property
    def group_rows(self) -> int:
        """Rows between the groups of eight of one block."""
        return choose(self.shape.flat, 8, self.halo_width)

    @cached_property
    def blocks_per_image(self) -> int:
        over_halo = (self.shape.height - 1) * self.halo_width + self.shape.width
        pixels = choose(self.shape.flat, over_halo, self.shape.height * WIDTH)
        return -(-pixels // BLOCK_ROWS)

    @cached_property
    def blocks(self) -> int:
        """wgmma blocks of the whole tile."""
        return self.shape.images * self.blocks_per_image

    @cached_property
    def chunks(self) -> int:
        """Chunks of `row_channels`; the last one may reach past c and is zero-filled."""
        return -(-self.workload.c // self.row_channels)

    @cached_property
    def pairs_taps(self) -> bool:
        """Whether one 32-byte step covers two neighbouring taps of 16 bytes."""
        return self.row_bytes == 16

    @cached_property
    def pair_rows(self) -> int:
        """Rows between the two taps of one step; 0 where a step has one tap."""
        return choose(self.pairs_taps, self.workload.dilation[1], 0)

    @cached_property
    def step_bytes(self) -> int:
        """Bytes of the reduction that one step covers."""
        return most(self.row_bytes, 32)

    @cached_property
    def steps_per_filter_row(self) -> int:
        return choose(self.pairs_taps, -(-self.workload.s // 2), self.workload.s)

    @cached_property
    def steps(self) -> int:
        """Steps of one chunk: filter taps, or pairs of them."""
        return self.workload.r * self.steps_per_filter_row

    @cached_property
    def reduction(self) -> int:
        """Length of a packed weight row: chunks x steps x step_bytes."""
        return self.chunks * self.steps * self.step_bytes

    @cached_property
    def grid(self) -> tuple[int, int, int]:
        """Tiles along images, rows and columns."""
        workload = self.workload
        return (
            -(-workload.n // self.shape.images),
            -(-workload.p // self.shape.height),
            -(-workload.q // self.shape.width),
        )

    @cached_property
    def tiles(self) -> int:
        images, rows, columns = self.grid
        return images * rows * columns

    @cached_property
    def useful(self) -> float:
        """Share of the computed rows that are output pixels."""
        workload = self.workload
        computed = self.tiles * self.blocks * BLOCK_ROWS
        return workload.n * workload.p * workload.q / computed

    def tap_row(self, step: int) -> int:
        """Rows that a step's reads are shifted by; also what a kernel computes."""
        per_row = self.steps_per_filter_row
        dilation_h, dilation_w = self.workload.dilation
        across = dilation_w * choose(self.pairs_taps, 2, 1)
        return step // per_row * dilation_h * self.halo_width + step % per_row * across

    def block_row(self, block: int) -> int:
        """First halo row of a block; also what a kernel computes."""
        pitch = choose(self.shape.flat, BLOCK_ROWS, 8 * self.halo_width)
        image = block // self.blocks_per_image * self.halo_height * self.halo_width
        return image + block % self.blocks_per_image * pitch

    def shared_row(self, block: int, m: int, step: int, half: int = 0) -> int:
        """Shared-memory row that wgmma reads for row m of a block; half: second tap of a pair."""
        inside = m // 8 * self.group_rows + m % 8
        return self.block_row(block) + inside + self.tap_row(step) + half * self.pair_rows

    def pixel(self, block: int, m: int) -> tuple[int, int, int]:
        """Image, row and column inside the tile of row m of a block.

        Columns of `width` or more and rows of `height` or more belong to no output pixel.
        Arguments may be TIR expressions.
        """
        row = block % self.blocks_per_image * BLOCK_ROWS + m
        pitch = self.halo_width if self.shape.flat else WIDTH
        return block // self.blocks_per_image, row // pitch, row % pitch
