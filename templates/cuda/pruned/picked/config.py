"""Knobs of the tile-wise kernel that picks, and what follows from them: rings and shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.composed.pruned_product import PrunedProduct
from autoq.templates.cuda.device.launch.registers import RegisterBudget, register_budget
from autoq.templates.cuda.device.mma.wgmma import K_BYTES
from autoq.templates.cuda.device.turned.row_steps import (
    LINE_BYTES,
    STAGE_K,
    most_blocks,
    whole_rounds,
)
from autoq.templates.cuda.pruned.picked.bordered import Bordered
from autoq.templates.cuda.pruned.picked.operand import Operand
from autoq.templates.cuda.pruned.picked.picks import blocks_of_all
from autoq.templates.cuda.pruned.picked.steps import STEP_WORDS, WORD_BYTES
from autoq.templates.cuda.pruned.tile_wise.outputs import ENTRY_WORDS
from autoq.templates.cuda.pruned.tile_wise.tiling import (
    BESIDE_SUMS,
    HELPING,
    WARPGROUP,
    InstructionTiling,
    M,
)

_PICKING = 24
_WHOLE = 32
_TURNED = 32
_HELD_ENTRIES = 160
"""Registers of a thread beside sums and fragments."""


@dataclass(frozen=True)
class PickedConfig:
    """Configuration of the kernel.

    rows: rows of y of a block.
    sides: tiles that a block computes side by side, of the same x.
    splits: consumers that share the rows of a tile.
    x_stages: of the ring of x, each of up to 128 bytes of k.
    depth: reductions of one instruction in a stage of weights.
    stages: of the ring of weights of each side.
    joined: tiles that are multiplied as one.
    cluster: neighbouring blocks of the same tiles; each copies a part of their weights for all.
    picked: whether a tile multiplies the k that it keeps, picked into registers, or all of k from
        shared memory, which leaves out pruned columns alone.
    helped: whether a warpgroup more stores outputs while others go on.
    bordered: whether x of a convolution is a tile of an image with its border, of which all taps
        pick, one stage for all k.
    blocks: blocks that share a multiprocessor.
    columns: surviving columns of a tile over all of k, which may be any; 0 for tiles as they are.
    turned: whether x is turned first, so that what a tile picks are rows of k, read by ldmatrix.
    teams: of consumers, who have pieces of work in turn, so that one multiplies while another one
        stores outputs.
    """

    rows: int
    sides: int
    splits: int
    x_stages: int
    depth: int
    stages: int
    joined: int = 1
    cluster: int = 1
    picked: bool = True
    helped: bool = False
    columns: int = 0
    bordered: bool = False
    blocks: int = 1
    teams: int = 1
    turned: bool = False


@dataclass(frozen=True)
class PickedTiling(InstructionTiling):
    """A tile-wise product cut by a configuration."""

    operand: Operand
    config: PickedConfig

    @property
    def view(self) -> PrunedProduct:
        return self.operand.view

    @property
    def product(self) -> PrunedProduct:
        return self.operand.view

    @property
    def paired(self) -> bool:
        return self.config.turned and self.size == 1

    @property
    def size(self) -> int:
        """Bytes of a value of x."""
        return self.operand.size

    @property
    def granularity(self) -> int:
        """Surviving columns of a tile, after tiles are joined."""
        return self.config.columns or self.view.sparsity.granularity * self.config.joined

    @property
    def groups(self) -> int:
        """Groups of tiles side by side."""
        columns = max(1, min(self.view.sparsity.columns, self.view.n))
        return -(-columns // (self.granularity * self.config.sides))

    @property
    def tiles(self) -> int:
        """Tiles of all groups, some of the last one not there."""
        return self.groups * self.config.sides

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return self.config.teams * self.team

    @property
    def team(self) -> int:
        """Warpgroups that multiply the same piece of work."""
        return self.config.sides * self.config.splits

    @property
    def threads(self) -> int:
        """Threads of the consumers, of a warpgroup that loads, and of helpers."""
        return WARPGROUP * (self.consumers + 1 + self.config.helped)

    @property
    def blocks_m(self) -> int:
        """Instructions of 64 rows of a consumer."""
        return self.config.rows // (M * self.config.splits)

    @property
    def row_tiles(self) -> int:
        bordered = self.bordered
        return -(-self.view.m // self.config.rows) if bordered is None else bordered.count

    @property
    def pitch(self) -> int:
        """Values of a row of x turned: whole row tiles."""
        return self.row_tiles * self.config.rows

    @property
    def items(self) -> int:
        """Pieces of work of clusters."""
        return self.groups * self.row_groups

    @property
    def k_stages(self) -> int:
        """Stages of x of a piece of work."""
        if self.config.turned:
            return whole_rounds(self.view.k, self.config.x_stages)
        return 1 if self.config.bordered else self.operand.stages

    @property
    def bordered(self) -> Bordered | None:
        """Tiles of images with their border, where x is such ones."""
        images = self.operand.images
        if images is None or not self.config.bordered:
            return None
        return Bordered(images, self.size, self.operand.row_bytes, self.config.rows)

    @property
    def steps_of_stage(self) -> int:
        """Reductions of one instruction in a stage of x."""
        return self.operand.row_bytes // K_BYTES

    @property
    def stages_of_tile(self) -> int:
        """Most stages of a tile's weights: those of all k."""
        if self.config.turned:
            return most_blocks(self.view.k, self.size)
        return blocks_of_all(self.k_stages, self.picked_bytes, self.config.depth)

    @property
    def picked_bytes(self) -> int:
        """Bytes of a row of a stage that is picked from, all of k where that is one."""
        if self.config.bordered:
            return -(-self.view.k * self.size // K_BYTES) * K_BYTES
        return self.operand.row_bytes

    @property
    def x_stage_bytes(self) -> int:
        bordered = self.bordered
        if bordered is not None:
            return bordered.panels * bordered.panel_bytes
        if self.config.turned:
            return self.config.rows * self.size * STAGE_K
        return self.config.rows * self.operand.row_bytes

    @property
    def picks_at(self) -> int:
        """Bytes of a stage of weights; behind them in memory are words that say what is picked."""
        return self.config.depth * K_BYTES * self.width

    @property
    def picks_bytes(self) -> int:
        """Bytes of a step's words that say what is picked."""
        if self.config.turned:
            return LINE_BYTES // self.config.depth
        return STEP_WORDS * WORD_BYTES * (2 if self.config.bordered else 1)

    @property
    def weight_bytes(self) -> int:
        """Bytes of a stage in memory, with what is picked, in whole lines."""
        picks = self.config.depth * self.picks_bytes if self.config.picked else 0
        return -(-(self.picks_at + picks) // 128) * 128

    @property
    def weight_stage_bytes(self) -> int:
        """Bytes of a stage of weights in shared memory, with what is picked where it is listed."""
        return self.weight_bytes if self.listed else self.picks_at

    @property
    def held_entries(self) -> int:
        """Entries of words of y that a consumer has room for in shared memory."""
        own = self.listed and self.in_words and not self.config.helped
        return _HELD_ENTRIES if own else 0

    @property
    def consumer_words(self) -> int:
        """Words of shared memory that a consumer has for terms and entries."""
        return self.terms_of_tile + self.held_entries * ENTRY_WORDS

    @property
    def staged_bytes(self) -> int:
        """16 rows of each warp, or all rows for helpers."""
        if self.config.helped:
            return 4 * self.config.sides * self.config.rows * self.row_pitch
        return 4 * self.consumers * 4 * 16 * self.row_pitch

    @property
    def smem_bytes(self) -> int:
        config = self.config
        x = config.x_stages * (self.x_stage_bytes + 16)
        weights = config.sides * config.stages * (self.weight_stage_bytes + 16)
        terms = 4 * self.consumers * self.consumer_words
        helpers = 16 * config.sides if config.helped else 0
        turns = 8 * config.teams if config.teams > 1 else 0
        return x + weights + self.staged_bytes + terms + helpers + turns

    @property
    def budget(self) -> RegisterBudget:
        """Registers of the threads that load and of those that multiply."""
        other = HELPING if self.config.helped else 0
        return register_budget(self.consumers, self.config.blocks, other=other)

    @property
    def fragments(self) -> int:
        """Of those who pick rows of x turned: of a product under way and of the next one.

        Where registers are few a product ends before the next one's words are read, and nothing is
        read ahead of a tile.
        """
        if not self.config.picked or self.config.bordered:
            return 2
        turned = _TURNED + 12 * self.blocks_m
        beside = turned if self.config.turned else 24 * self.blocks_m + _PICKING
        return 2 if self.sums + beside <= self.budget.consumer else 1

    @property
    def listed(self) -> bool:
        """Whether what is picked comes to shared memory behind the weights."""
        return self.config.turned or self.fragments == 1

    @property
    def registers_fit(self) -> bool:
        """Whether a thread holds its sums, fragments of two steps and what addresses take."""
        picking = 24 * self.blocks_m + _PICKING
        if self.listed:
            picking = _TURNED
        needed = self.sums + (picking if self.config.picked else _WHOLE)
        least = HELPING if self.config.helped else 0
        launch = max(least, self.width // 2 + BESIDE_SUMS) <= self.budget.launch
        return launch and needed <= self.budget.consumer
