"""Knobs of products with single weights, and what follows from them: panels, chunks, runs."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.composed.pruned_product import PrunedProduct
from autoq.templates.cuda.device.launch.occupancy import allocated, blocks_held
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import Target

UNIT = 4
"""Weights of a step: a word of bytes, for one instruction of four products."""

UNIT_BYTES = 16
_OTHER_REGISTERS = 56
_PAD = 4


@dataclass(frozen=True)
class ElementsConfig:
    """Configuration of a product with single weights.

    lanes: that share a row of the panel of x, 16 bytes each.
    outputs: of which a group of so many lanes holds the sums.
    warps: of a block.
    chunk: rows of the panel, inputs, that lie in shared memory at a time.
    """

    lanes: int
    outputs: int
    warps: int
    chunk: int


@dataclass(frozen=True)
class ElementsTiling:
    """A product with single weights, of the class `structure`, cut by a configuration.

    turned: values of a row of x transposed where another kernel takes it too, else None.
    """

    view: PrunedProduct
    structure: Structure
    config: ElementsConfig
    turned: int | None = None

    @property
    def values(self) -> int:
        """Rows of y that a lane computes: values of 16 bytes of x."""
        return UNIT_BYTES // self.view.value.bytes

    @property
    def rows(self) -> int:
        """Rows of y of a block."""
        return self.config.lanes * self.values

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the panel."""
        return self.config.lanes * UNIT_BYTES

    @property
    def row_tiles(self) -> int:
        return -(-self.view.m // self.rows)

    @property
    def pitch(self) -> int:
        """Values of a row of x transposed: whole panels, or more."""
        return self.turned or self.row_tiles * self.rows

    @property
    def panels_are_whole(self) -> bool:
        """Whether x transposed has all rows of the last panel."""
        return self.row_tiles * self.rows <= self.pitch

    @property
    def groups(self) -> int:
        """Groups of lanes of a block, each with an output of its own at a time."""
        return self.config.warps * 32 // self.config.lanes

    @property
    def columns(self) -> int:
        """Outputs of a block."""
        return self.groups * self.config.outputs

    @property
    def column_tiles(self) -> int:
        return -(-self.view.n // self.columns)

    @property
    def chunks(self) -> int:
        return -(-self.view.k // self.config.chunk)

    @property
    def runs(self) -> int:
        """Runs of steps: one for each output of whole blocks in each chunk."""
        return self.chunks * self.column_tiles * self.columns

    @property
    def steps(self) -> int:
        """Most steps of all runs, the last of each filled up with zeros."""
        blocks = self.structure.blocks
        begun = min(blocks, self.chunks * self.view.n)
        return max(1, (blocks + (UNIT - 1) * begun) // UNIT)

    @property
    def sums(self) -> int:
        """Sums of a thread."""
        return self.config.outputs * self.values

    @property
    def threads(self) -> int:
        return 32 * self.config.warps

    @property
    def registers(self) -> int:
        """Estimate of a thread's registers."""
        return self.sums + _OTHER_REGISTERS

    @property
    def staged_pitch(self) -> int:
        """Words of a row of sums on their way to y."""
        return self.groups + _PAD

    @property
    def smem_bytes(self) -> int:
        """The chunk, and in its place later the sums of one output of each group."""
        return max(self.config.chunk * self.row_bytes, 4 * self.rows * self.staged_pitch)

    def resident(self, target: Target) -> int:
        """Blocks that a multiprocessor holds at once; 0 where one does not fit."""
        return blocks_held(self.smem_bytes, allocated(self.registers), self.threads, target)
