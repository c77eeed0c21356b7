"""Knobs of the 2:4 sparse product on mma.sp, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.cuda.pruned.two_four.view import TwoFourProduct

WARP_WEIGHTS, WARP_BLOCKS = 64, 4
"""Weight rows of a warp, which a thread has eight neighbouring ones of, and instructions of 16."""
ROW_BYTES, STEP_BYTES = 128, 64
"""Of a row of x in a stage, and what one instruction takes of it."""
STEPS = ROW_BYTES // STEP_BYTES
LANES, FRAGMENT_BYTES = 32, 512
"""Of a warp, and of the kept weights of an instruction."""
_OTHER = 60
"""Registers of fragments, metadata and addresses."""


@dataclass(frozen=True)
class TwoFourMmaConfig:
    """Configuration of the kernel.

    weight_warps: warps of a block along weights, of 64 weight rows each.
    row_warps: warps of a block along rows of y.
    warp_rows: rows of y of a warp.
    stages: of the ring of x and weights, of 128 bytes of k each.
    group: tiles of rows of y that blocks go through before they take the next weights.
    blocks_per_sm: blocks that share a multiprocessor.
    """

    weight_warps: int
    row_warps: int
    warp_rows: int
    stages: int
    group: int
    blocks_per_sm: int

    @property
    def threads(self) -> int:
        return LANES * self.weight_warps * self.row_warps


@dataclass(frozen=True)
class TwoFourMmaTiling:
    """A 2:4 sparse product cut by a configuration."""

    view: TwoFourProduct
    config: TwoFourMmaConfig

    @property
    def size(self) -> int:
        """Bytes of a value of x."""
        return self.view.value.bytes

    @property
    def atom(self) -> MmaSync:
        """The instruction, of 16 weight rows by 8 rows of x."""
        work = self.view.workload
        sums = "float32" if self.view.floating else "int32"
        shape = (16, 8, STEP_BYTES // self.size)
        return MmaSync(shape, work.weight_dtype, work.in_dtype, sums, sparse=True)

    @property
    def tile_weights(self) -> int:
        """Weight rows of a tile, which are columns of y."""
        return WARP_WEIGHTS * self.config.weight_warps

    @property
    def tile_rows(self) -> int:
        """Rows of y of a tile."""
        return self.config.row_warps * self.config.warp_rows

    @property
    def weight_tiles(self) -> int:
        return -(-self.view.workload.n // self.tile_weights)

    @property
    def row_tiles(self) -> int:
        return -(-self.view.workload.m // self.tile_rows)

    @property
    def blocks(self) -> int:
        return self.weight_tiles * self.row_tiles

    @property
    def terms(self) -> int:
        """Columns of the epilogue's terms: those of whole tiles."""
        return self.weight_tiles * self.tile_weights

    @property
    def k_stages(self) -> int:
        """Stages of a tile."""
        return -(-self.view.workload.k * self.size // ROW_BYTES)

    @property
    def metadata_words(self) -> int:
        """Of a lane, 16 weight rows and a stage: 16-bit floats have both steps in one."""
        return STEPS // self.size

    @property
    def block_bytes(self) -> int:
        """Of 16 weight rows of a stage: the kept values of each step, then their metadata."""
        return STEPS * FRAGMENT_BYTES + LANES * 4 * self.metadata_words

    @property
    def weight_stage_bytes(self) -> int:
        return self.config.weight_warps * WARP_BLOCKS * self.block_bytes

    @property
    def x_stage_bytes(self) -> int:
        return self.tile_rows * ROW_BYTES

    @property
    def smem_bytes(self) -> int:
        return self.config.stages * (self.x_stage_bytes + self.weight_stage_bytes)

    @property
    def sums(self) -> int:
        """Accumulators of a thread."""
        return WARP_WEIGHTS * self.config.warp_rows // LANES

    @property
    def registers(self) -> int:
        """About those of a thread."""
        return self.sums + _OTHER
