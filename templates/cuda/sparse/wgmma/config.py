"""Knobs of products of long vectors by wgmma, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.cuda.device.launch.registers import RegisterBudget, register_budget
from autoq.templates.cuda.sparse.config import GROUP
from autoq.templates.operators.spmm import Spmm
from autoq.templates.target import Target

LONG_VECTORS = (16, 32, 64, 128)
"""Rows of a vector that are a width of the instruction."""

DEPTH = 32
"""Gathered rows of one instruction over bytes, of two over floats."""

TEAM_COLUMNS = 64
"""Columns of b, the rows of an instruction's left factor."""

CHUNK_COLUMNS = 16
"""Columns that a warp takes of an instruction, neighbours in b."""

HEAD_PLACES = 512
"""Places of a vector row that lie where its number says too: those that are held ahead."""

PIECE_BYTES = 16
"""Of a gathered row, that a thread copies at once."""

PADDING_BYTES = 16
"""Behind a gathered row: eight rows that are read at once start in different banks."""

_OTHER_REGISTERS = 48
_OF_AN_INSTRUCTION = 30
"""That ptxas asks for beside an instruction's sums."""
_OF_A_LOOP = 32
"""That it needs beside all sums and the places of tiles, where these do not end with the block."""
_COPYING = 56
_COPYING_AHEAD_IN_CLUSTERS = 64
"""Registers of a thread that copies; what is read of the next tile takes some."""
_ALIGNMENT = 128


@dataclass(frozen=True)
class LongConfig:
    """Configuration of the kernel of long vectors.

    teams: warpgroups that multiply, besides the one that copies.
    tiles: times 64 columns of y that a warpgroup computes.
    rows: gathered rows of a stage.
    stages: stages of the ring.
    cluster: neighbouring blocks of the same vectors, of which each copies a part for all.
    blocks_per_unit: blocks whose registers a multiprocessor has room for.
    bulk: warps of the four that copy whose gathered rows come by a bulk copy each; pieces of 16
        bytes of the others are copied by threads, which is another way to shared memory.
    whole_stages: whether a stage's fragments are turned together; else one instruction's at a time.
    persistent: whether blocks are as many as the GPU holds at once and take one tile of y after
        another, whose copies go on while outputs are finished.
    streamed: whether y leaves the L2 before what is read again.
    turns_back: whether every second tile of a block is gathered from its last stage to its first:
        what the blocks have read last of b is then read first again.
    """

    teams: int
    tiles: int
    rows: int
    stages: int
    cluster: int = 1
    blocks_per_unit: int = 1
    whole_stages: bool = True
    bulk: int = 0
    persistent: bool = False
    streamed: bool = False
    turns_back: bool = False


@dataclass(frozen=True)
class LongTiling:
    """A product of long vectors cut by a configuration."""

    workload: Spmm
    config: LongConfig
    digit_bits: ClassVar[int] = 8
    right_digits: ClassVar[int] = 1
    b_offset: ClassVar[int] = 0
    """Nibbles are multiplied with their signs."""

    @property
    def value_size(self) -> int:
        """Bytes of a value of the sparse side, and of b where it has no 4 bits."""
        return 2 if self.workload.floating else 1

    @property
    def nibbles(self) -> bool:
        """Whether values of b have 4 bits, and lie in shared memory as they do in b."""
        return is_four_bit(self.workload.in_dtype)

    @property
    def row_bytes(self) -> int:
        """A gathered row."""
        return self.columns * self.value_size // (2 if self.nibbles else 1)

    @property
    def columns(self) -> int:
        """Columns of y that a block computes."""
        return TEAM_COLUMNS * self.config.teams * self.config.tiles

    @property
    def panels(self) -> int:
        return -(-self.workload.n // self.columns)

    @property
    def tiles_of_y(self) -> int:
        """Each is of a vector row and of as many columns as a block computes."""
        return self.panels * self.workload.vector_rows

    def blocks(self, target: Target) -> int:
        """Blocks of a launch, whole clusters."""
        if not self.config.persistent:
            return self.tiles_of_y
        cluster = self.config.cluster
        at_once = target.units_in_clusters(cluster) * self.config.blocks_per_unit
        return min(self.tiles_of_y, max(1, at_once // cluster) * cluster)

    @property
    def threads(self) -> int:
        """The warpgroups that multiply, and one that copies."""
        return 128 * (self.config.teams + 1)

    @property
    def budget(self) -> RegisterBudget:
        """Registers of a thread that copies, and of one that multiplies."""
        both = self.config.persistent and self.config.cluster > 1
        copying = _COPYING_AHEAD_IN_CLUSTERS if both else _COPYING
        return register_budget(self.config.teams, self.config.blocks_per_unit, copying)

    @property
    def pitch(self) -> int:
        """Bytes from one gathered row to the next."""
        return self.row_bytes + PADDING_BYTES

    @property
    def pieces_of_warp(self) -> int:
        """Pieces of 16 bytes that the threads of one of four warps copy of a stage."""
        return self.config.rows // 4 * self.row_bytes // PIECE_BYTES

    @property
    def value_bytes(self) -> int:
        """Values of a stage."""
        return self.workload.vector * self.config.rows * self.value_size * self.left_digits

    @property
    def stage_bytes(self) -> int:
        used = self.value_bytes + self.config.rows * self.pitch
        return -(-used // _ALIGNMENT) * _ALIGNMENT

    @property
    def staging_bytes(self) -> int:
        """Where a warpgroup puts narrow outputs together: twice at most 32 rows of bytes."""
        size = element(self.workload.epilogue.out_dtype).bytes if self.stages_outputs else 1
        rows = min(DEPTH // size, self.workload.vector)
        return 2 * rows * (TEAM_COLUMNS * self.config.tiles * size + PADDING_BYTES)

    @property
    def stages_outputs(self) -> bool:
        """Whether outputs go through shared memory: bytes, and 16-bit floats of floats.

        Of other outputs neighbouring columns are whole sectors.
        """
        return element(self.workload.epilogue.out_dtype).bytes <= self.value_size

    @property
    def ring_bytes(self) -> int:
        """The ring, which outputs of a single tile are staged in behind the last product."""
        staged = 0 if self.config.persistent else self.all_staging_bytes
        return max(self.config.stages * self.stage_bytes, staged)

    @property
    def all_staging_bytes(self) -> int:
        """Where all warpgroups put outputs together."""
        return self.config.teams * self.staging_bytes

    @property
    def barrier_bytes(self) -> int:
        """Barriers of a stage: when full, when empty, in a cluster when all are; whole 16 bytes."""
        return 16 if self.config.cluster == 1 else 32

    @property
    def staging_start(self) -> int:
        """Where that begins: behind the barriers and the terms of two tiles, or with the ring."""
        return self._behind_terms if self.config.persistent else 0

    @property
    def _behind_terms(self) -> int:
        terms = self.term_bytes * (2 if self.config.persistent else 1)
        return self.ring_bytes + self.config.stages * self.barrier_bytes + terms

    @property
    def term_bytes(self) -> int:
        """Biases, of 64 bits where sums are, and two factors of the rows of a tile."""
        return (16 if self.workload.wide else 12) * self.workload.vector

    @property
    def smem_bytes(self) -> int:
        """The ring, two barriers for each of its stages, and a bias and two factors of each row."""
        return self._behind_terms + (self.all_staging_bytes if self.config.persistent else 0)

    @property
    def cuts_last(self) -> bool:
        """Whether of a tile's last stage only whole 32 of the rows that there are, are copied.

        It is the last in memory too, belongs to one block, and its fragments are turned together.
        """
        config = self.config
        alone = config.cluster == 1 and not config.turns_back
        return config.rows > DEPTH and alone and config.whole_stages

    @property
    def steps(self) -> int:
        """Most stages that all vector rows fill."""
        rows, workload = self.config.rows, self.workload
        of_longest = workload.vector_rows * -(-workload.longest // rows)
        filled = workload.vector_rows + workload.structure.blocks // rows
        return max(1, min(of_longest, filled))

    @property
    def sums(self) -> int:
        """Sums of a thread."""
        return self.config.tiles * self.sums_of_tile

    @property
    def sums_of_tile(self) -> int:
        """Sums of a thread that a product, or one of each digit, adds to."""
        return self.workload.vector // 2 * self.planes

    @property
    def registers(self) -> int:
        """Estimate of a thread's registers: sums, two sets of fragments, and others."""
        together = self.config.tiles * self.config.rows // DEPTH
        gathered = 8 * self.value_size * (together if self.config.whole_stages else 1)
        return self.sums + gathered + _OTHER_REGISTERS

    def fits(self, target: Target) -> bool:
        """Whether a multiprocessor has the shared memory for its blocks, and threads registers."""
        blocks, budget = self.config.blocks_per_unit, self.budget
        room = target.unit_smem_bytes // (self.smem_bytes + target.reserved_smem_bytes)
        # A product's registers lie within those of the launch, and so do those of the next stage's.
        held = self.registers - _OTHER_REGISTERS + 4 * self.config.tiles * self.value_size
        if not self.config.whole_stages:
            held = self.sums_of_tile + _OF_AN_INSTRUCTION
        if self.config.persistent or self.workload.floating:  # ptxas serialises products of more
            held = max(held, self.sums + 4 * self.config.tiles + _OF_A_LOOP)
        return blocks <= room and self.registers <= budget.consumer and held <= budget.launch

    @property
    def groups(self) -> int:
        """Eights of rows of all vector rows."""
        return self.workload.vector_rows * (self.workload.vector // GROUP)

    @property
    def terms(self) -> int:
        """Rows of all vector rows."""
        return self.groups * GROUP

    @property
    def turns_outputs(self) -> bool:
        """Whether bytes are staged by squares of two columns of two rows, as stmatrix takes them.

        Nibbles of a byte are columns of two tiles, and a residual is read as y is written.
        """
        epilogue = self.workload.epilogue
        alone = epilogue.residual_dtype is None and not (self.nibbles or self.workload.floating)
        return alone and element(epilogue.out_dtype).bytes == 1

    @property
    def finished_columns(self) -> int:
        """Columns that a warp finishes together: of nibbles those of two tiles are neighbours."""
        return CHUNK_COLUMNS * (2 if self.nibbles else 1)

    @property
    def neighbours(self) -> int:
        """Outputs of a lane that are computed together: neighbours in y, or a square."""
        if self.turns_outputs:
            return 4
        return 1 if self.workload.floating else self.finished_columns // 8

    @property
    def left_digits(self) -> int:
        """Bytes of an integer of the sparse side: each has its products."""
        return 2 if self.workload.weight_dtype in ("int16", "uint16") else 1

    @property
    def planes(self) -> int:
        """Sums of an output."""
        return self.left_digits
