"""Knobs of products of few rows, and what follows from them: pieces, registers, blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autoq.templates.cuda.device.launch.occupancy import allocated, blocks_held
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target

LANES = 32
TILE_OUTPUTS, TILE_ROWS = 16, 8
"""Outputs and rows of x of one instruction, m16n8k32."""
PIECE_K = 64
"""Values of k of a piece: a lane has 16 neighbouring ones of a row of x, for two instructions."""
INSTRUCTIONS = 2
LANE_BYTES = 16
PIECE_BYTES = INSTRUCTIONS * LANES * LANE_BYTES
"""Of the weights of a tile of outputs."""

_OTHER_REGISTERS = 32
_PAD = 4


@dataclass(frozen=True)
class FewRowsConfig:
    """Configuration of a product of few rows.

    tiles: of 16 outputs, which a warp multiplies with the same values of x.
    warps: of a block, which take pieces of 64 values of k in turn.
    splits: blocks that share the reduction of the same outputs.
    depth: pieces that a warp has under way.
    """

    tiles: int
    warps: int
    splits: int
    depth: int


@dataclass(frozen=True)
class FewRowsTiling:
    """A product cut by a configuration."""

    workload: Gemm
    config: FewRowsConfig

    @property
    def column_tiles(self) -> int:
        """Tiles of 8 rows of x, columns of an instruction's results."""
        return -(-self.workload.m // TILE_ROWS)

    @property
    def vector(self) -> int:
        """Bytes of x that one load takes: 16, or what divides a row of fewer."""
        return math.gcd(self.workload.k, LANE_BYTES)

    @property
    def outputs(self) -> int:
        """Outputs of a block."""
        return TILE_OUTPUTS * self.config.tiles

    @property
    def groups(self) -> int:
        """Blocks side by side along the outputs."""
        return -(-self.workload.n // self.outputs)

    @property
    def blocks(self) -> int:
        return self.groups * self.config.splits

    @property
    def pieces(self) -> int:
        """Pieces of k, the last one filled up with zeros."""
        return -(-self.workload.k // PIECE_K)

    @property
    def split_pieces(self) -> int:
        """Most pieces of a block."""
        return -(-self.pieces // self.config.splits)

    @property
    def threads(self) -> int:
        return LANES * self.config.warps

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Blocks of outputs, pieces, tiles, instructions, lanes and bytes of packed weights."""
        tiles = self.config.tiles
        return (self.groups, self.pieces, tiles, INSTRUCTIONS, LANES, LANE_BYTES)

    @property
    def pitch(self) -> int:
        """Words between rows of sums in shared memory: lanes of a warp meet in no bank."""
        return self.outputs + _PAD

    @property
    def smem_bytes(self) -> int:
        """Sums of all warps, and a word that says whether the block is a group's last."""
        return 4 * (self.config.warps * self.workload.m * self.pitch + 1)

    @property
    def part_words(self) -> int:
        """Sums that a block gives to the last one of its group."""
        return self.workload.m * self.outputs

    @property
    def registers(self) -> int:
        """Estimate of a thread's registers."""
        weights = 4 * INSTRUCTIONS * self.config.tiles
        each = weights + 4 * self.column_tiles
        sums = 4 * self.config.tiles * self.column_tiles
        return self.config.depth * each + sums + _OTHER_REGISTERS

    def resident(self, target: Target) -> int:
        """Blocks that a multiprocessor holds at once; 0 where one does not fit."""
        return blocks_held(self.smem_bytes, allocated(self.registers), self.threads, target)
