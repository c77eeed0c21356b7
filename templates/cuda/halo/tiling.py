"""What follows from the knobs of a halo convolution: shared memory, registers, work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from autoq.search.lanes import choose, least, most
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.borders.bias import bias_rows
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.cuda.halo.config import HaloConfig
from autoq.templates.cuda.halo.tile import BLOCK_ROWS, HaloTile
from autoq.templates.epilogue.cuda.parameters.lookups import table_bytes
from autoq.templates.epilogue.cuda.parameters.packed_specs import product_specs
from autoq.templates.operators.conv2d import Conv2d

MOST_BLOCKS = 4
"""64-row blocks that a consumer keeps in registers."""

# Registers that ptxas wants beside the accumulators of one wgmma, of those a block is launched
# with: what setmaxnreg adds does not count.
_BESIDE_INSTRUCTION = 26

# Cycles from passing the turn on to the next consumer's first multiplication. Passing it earlier
# than that, or by more than a sixth of a tile, costs more than it hides: 68 us instead of 60 for
# the stem of ResNet-50, 128 x 112x112x16 -> 64, on an H200.
_TURN_CYCLES = 300


@dataclass(frozen=True)
class HaloTiling:
    """One configuration of one workload on a GPU of `units` multiprocessors.

    Pixels are the rows of the product, output channels its columns.
    """

    workload: Conv2d
    config: HaloConfig
    units: int

    tile_type: ClassVar[Callable[..., Any]] = HaloTile
    """Makes what `config.tile` names: (workload, config.tile, row_bytes)."""

    @cached_property
    def tile(self) -> Any:
        return self.tile_type(self.workload, self.config.tile, self.config.row_bytes)

    @cached_property
    def n_tiles(self) -> int:
        return -(-self.workload.k // self.config.block_n)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        """Weights as shared memory holds them, the table of biases, then scale and scalars."""
        channels = self.n_tiles * self.config.block_n
        bias = (bias_rows(self.workload) * channels,)
        weight = (channels * self.tile.reduction,)
        return product_specs(self.workload.epilogue, weight, bias, channels)

    @cached_property
    def work(self) -> int:
        """Output tiles times tiles of channels; the latter run fastest.

        Every block of a cluster gets as many: tiles past the last one are read as zeros, and
        nothing of them is stored.
        """
        cluster = self.config.cluster
        return -(-self.tile.tiles // cluster) * cluster * self.n_tiles

    @cached_property
    def grid(self) -> int:
        """Persistent blocks; a block with resident weights keeps one tile of channels."""
        blocks = least(self.units * self.config.blocks_per_unit, self.work)
        unit = self.config.cluster * choose(self.config.resident, self.n_tiles, 1)
        return blocks // unit * unit

    @cached_property
    def waves(self) -> int:
        """Tiles that the busiest block computes."""
        return -(-self.work // self.grid)

    def tile_of(self, work: Any) -> tuple[Any, Any]:
        """Pixel tile and channel tile of a work index; those of a cluster share the latter."""
        cluster = self.config.cluster
        if cluster == 1:
            return work // self.n_tiles, work % self.n_tiles
        together = work // cluster
        return together // self.n_tiles * cluster + work % cluster, together % self.n_tiles

    @cached_property
    def blocks(self) -> int:
        """wgmma blocks of 64 rows of an output tile."""
        return self.tile.blocks

    @cached_property
    def instruction_n(self) -> int:
        """Columns of one wgmma."""
        return self.config.block_n

    @cached_property
    def atom(self) -> Wgmma:
        """The instruction that multiplies a block of 64 rows."""
        return Wgmma.dense(self.instruction_n, self.workload.in_dtype, "int8", "int32")

    @property
    def other_registers(self) -> int:
        """Registers of a consumer beside accumulators: epilogue, descriptors, indices."""
        return 60

    epilogue_slots = 8.0
    """Issue slots of a thread for each of its outputs."""

    staged_bytes = 0
    """Bytes that the epilogue of a tile writes to shared memory and reads from it."""

    @cached_property
    def computed(self) -> int:
        """Elements of an output tile, those thrown away included."""
        return self.blocks * BLOCK_ROWS * self.instruction_n

    @cached_property
    def blocks_per_consumer(self) -> int:
        shared = self.blocks // self.config.consumers
        return choose(self.config.cooperative, shared, self.blocks)

    @cached_property
    def fits_registers(self) -> bool:
        """Whether consumers share the blocks evenly and hold at most four, within registers."""
        if self.config.cooperative and self.blocks % self.config.consumers:
            return False
        if self.blocks_per_consumer > MOST_BLOCKS:
            return False
        if self.atom.d_registers + _BESIDE_INSTRUCTION > self.config.registers.launch:
            return False
        return self.accumulators + self.other_registers <= self.config.registers.consumer

    @cached_property
    def accumulators(self) -> int:
        """Accumulator registers of a consumer thread."""
        return self.blocks_per_consumer * self.atom.d_registers

    @cached_property
    def turn_step(self) -> int:
        """Step of a tile, counted over its chunks, before which a consumer passes the turn on.

        The next one then multiplies when this one's last instructions finish. It must not be
        a whole ring of weights or slots ahead.
        """
        instructions = self.blocks_per_consumer * self.tile.step_bytes // self.atom.a_bytes
        step_cycles = instructions * self.instruction_n // 2
        steps = self.tile.steps * self.tile.chunks
        early = max(min(_TURN_CYCLES, step_cycles * steps // 6) // step_cycles, 1)
        if not self.config.resident:
            early = min(early, (self.config.ring_stages - 1) * self.config.steps_together)
        return max(steps - min(early, self.tile.steps), 0)

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of one step's weights."""
        return self.config.block_n * self.tile.step_bytes

    @cached_property
    def weight_parts(self) -> int:
        """Parts of a step's weights that blocks of a cluster may load: whole swizzle patterns."""
        return self.config.block_n // 8

    @cached_property
    def stage_bytes(self) -> int:
        return self.config.steps_together * self.weight_bytes

    @cached_property
    def stages_per_chunk(self) -> int:
        return self.tile.steps // self.config.steps_together

    @cached_property
    def steps_per_tile(self) -> int:
        return self.tile.chunks * self.tile.steps

    @cached_property
    def stages_per_tile(self) -> int:
        return self.tile.chunks * self.stages_per_chunk

    @cached_property
    def weight_offset(self) -> int:
        """Shared-memory byte where the weights start; halo slots lie before them."""
        return self.config.halo_stages * self.tile.slot_bytes

    @cached_property
    def weights_end(self) -> int:
        """Shared-memory byte behind the weights."""
        resident = self.steps_per_tile * self.weight_bytes
        ring = self.config.ring_stages * self.stage_bytes
        return self.weight_offset + choose(self.config.resident, resident, ring)

    @cached_property
    def barrier_offset(self) -> int:
        return -(-self.weights_end // 8) * 8

    @cached_property
    def weight_barriers(self) -> int:
        """Barriers of the weight ring, of the resident weights' parts, or of all of them."""
        parts = -(-self.steps_per_tile // self.config.steps_together)
        whole = choose(self.config.resident, 1, 2 * self.config.ring_stages)
        return choose(self.config.in_parts, parts, whole)

    @cached_property
    def barriers(self) -> int:
        """Halo ring, weights, turns."""
        turns = self.config.consumers * self.config.turns
        return 2 * self.config.halo_stages + self.weight_barriers + turns

    @cached_property
    def lookups_at(self) -> int:
        """Byte behind what is laid out and what rows thrown away may touch: a table of outputs."""
        laid_out = self.barrier_offset + 8 * self.barriers
        last_slot = (self.config.halo_stages - 1) * self.tile.slot_bytes
        return most(laid_out, last_slot + self.tile.touched_bytes)

    @cached_property
    def smem_bytes(self) -> int:
        """Dynamic shared memory."""
        return self.lookups_at + table_bytes(self.workload.epilogue)
