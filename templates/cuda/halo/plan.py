"""Compile-time constants and device expressions that the parts of a halo kernel share."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

from tvm.script import tirx as T

from autoq.templates.borders.classes import border_classes
from autoq.templates.borders.row import bias_row
from autoq.templates.cuda.device.launch.place import TilePlace
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import (
    ENCODE_TILED,
    LOAD_BULK,
    MAX_BOX,
    Delivery,
    load_tiled,
    nhwc_strides,
    tiled_map,
    tma_load,
)
from autoq.templates.cuda.device.mma.descriptors import descriptor_step
from autoq.templates.cuda.device.pixel import Pixel
from autoq.templates.cuda.device.weights import (
    LAST_CHANNELS,
    channels_per_thread,
    last_columns,
)
from autoq.templates.cuda.halo.operands import CommitGroup
from autoq.templates.cuda.halo.store import RowStore
from autoq.templates.cuda.halo.tile import BLOCK_ROWS
from autoq.templates.cuda.halo.tiling import HaloTiling
from autoq.templates.epilogue.cuda.fragments.fragment_rows import FragmentRows
from autoq.templates.epilogue.cuda.fragments.wgmma_units import GroupedColumns, Unit
from autoq.templates.epilogue.cuda.parameters.scalars import scale_words

# Steps of one tile that are unrolled when the weights are resident.
_UNROLL_LIMIT = 16


class HaloPipelinePlan:
    """What producer and main loop share; every attribute is a compile-time constant.

    Subclasses say which operand comes first, which has the blocks, and how a tile is stored.
    """

    weights_first: ClassVar[bool]
    store: ClassVar[type]
    x_encode = ENCODE_TILED

    def __init__(self, tiling: HaloTiling) -> None:
        workload, config = tiling.workload, tiling.config
        self.tiling, self.workload, self.config, self.tile = tiling, workload, config, tiling.tile
        self.resident = config.resident
        self.blocks = tiling.blocks_per_consumer
        self.block_accumulators = tiling.atom.d_registers
        self.padded_n = tiling.n_tiles * config.block_n
        self.scales = scale_words(workload.epilogue, self.padded_n)
        self.elements = workload.n * workload.p * workload.q * workload.k
        self.lookups_at = tiling.lookups_at
        self.teams = config.teams
        self.rows, self.columns = border_classes(workload)
        self.classes = self.rows.count * self.columns.count

        self.ring_stages = max(config.ring_stages, 1)

        # Barriers: the halo ring, the weight ring or the resident weights, turns.
        self.weight_barriers = 2 * config.halo_stages
        self.turn_barriers = self.weight_barriers + tiling.weight_barriers
        self.arrivals = 4 * (config.consumers if config.cooperative else 1)
        self.cluster = config.cluster

        # Two loading warps and the consumers.
        self.started_threads = 64 + 128 * config.consumers

        # Streamed weights: one commit group a stage; resident ones: one a chunk.
        self.groups_per_chunk = 1 if self.resident else tiling.stages_per_chunk
        self.steps_per_group = self.tile.steps if self.resident else config.steps_together
        self.unrolled = self.resident and tiling.steps_per_tile <= _UNROLL_LIMIT

    @property
    def weight_shape(self) -> tuple[int]:
        """Bytes of the packed weights: the image of each step of each tile of channels."""
        return (self.tiling.n_tiles * self.tiling.steps_per_tile * self.tiling.weight_bytes,)

    def load_weights(
        self, smem: Any, weight: Any, step: Any, steps: Any, place: TilePlace, full: Any
    ) -> Any:
        """The call that loads the weights of consecutive steps; wrap it in T.evaluate.

        Blocks of a cluster load a part of one step each, for all of them.
        """
        first, size = self.weight_span(step, steps, place.n, place.rank)
        to, size = Delivery(self.cluster), T.cast(size, "uint32")
        return tma_load(LOAD_BULK, to, smem, weight.ptr_to([first]), size, full)

    def weight_span(self, step: Any, steps: Any, n: Any, rank: Any) -> tuple[Any, Any]:
        """First byte and number of bytes of what block `rank` loads of some steps' weights."""
        part = self.tiling.weight_bytes // self.cluster
        first = (n * self.tiling.steps_per_tile + step) * self.tiling.weight_bytes
        return first + rank * part, steps * part

    @property
    def whole_rows(self) -> bool:
        """Whether a halo's row is one run of bytes, in memory and shared memory alike.

        It then arrives as one line of the box instead of 16 bytes a pixel.
        """
        tile = self.tile
        whole = tile.row_bytes == 16 and tile.row_channels == self.workload.c
        return whole and tile.halo_width * tile.row_channels <= MAX_BOX

    @property
    def x_rank(self) -> int:
        return 3 if self.whole_rows else 4

    def x_arguments(self) -> list[int]:
        """Tensor map of the activations: one box is a chunk of a halo."""
        tile = self.tile
        n, h, w, c = self.workload.x_shape
        dtype, mode = self.workload.in_dtype, swizzle_mode(tile.row_bytes)
        if self.whole_rows:
            box = [tile.halo_width * c, tile.halo_height, tile.shape.images]
            return tiled_map(dtype, [w * c, h, n], [w * c, h * w * c], box, mode)
        box = [tile.row_channels, tile.halo_width, tile.halo_height, tile.shape.images]
        return tiled_map(dtype, [c, w, h, n], nhwc_strides(h, w, c), box, mode)

    def x_coordinates(self, chunk: Any, image: Any, h: Any, w: Any) -> tuple[Any, ...]:
        """Coordinates of a chunk of the halo that starts at row h and column w."""
        if self.whole_rows:
            return w * self.tile.row_channels, h, image
        return chunk * self.tile.row_channels, w, h, image

    def fetch(self, smem: Any, x_map: Any, m: Any, chunk: Any, barrier: Any) -> Any:
        """The call that loads a chunk of tile m's activations; wrap it in T.evaluate."""
        coordinates = self.x_coordinates(chunk, *self.halo_origin(m))
        to = Delivery(once=self.config.input_once)
        return tma_load(load_tiled(self.x_rank), to, smem, x_map, *coordinates, barrier)

    def origin(self, m: Any) -> tuple[Any, Any, Any]:
        """First image, output row and output column of a tile."""
        tile = self.tile
        _, rows, columns = tile.grid
        return (
            m // (rows * columns) * tile.shape.images,
            m // columns % rows * tile.shape.height,
            m % columns * tile.shape.width,
        )

    def halo_origin(self, m: Any) -> tuple[Any, Any, Any]:
        """First image, input row and input column of a tile's halo; -padding at the borders."""
        top, left, _, _ = self.workload.padding
        image, p, q = self.origin(m)
        return image, p - top, q - left

    def product(
        self, accumulator: Any, block: int, group: CommitGroup, step: Any, i: int, j: int,
        accumulate: Any,
    ) -> Any:  # fmt: skip
        """One wgmma: the pixels of a halo shifted by a filter tap, and a step's weights.

        i, j: step inside the group, instruction inside the step.
        """
        tile, inside = self.tile, j * self.tiling.atom.a_bytes
        pixels = group.a, descriptor_step(tile.tap_row(step) * tile.row_bytes + inside)
        weights = group.b, descriptor_step(i * self.tiling.weight_bytes + inside)
        first, second = (weights, pixels) if self.weights_first else (pixels, weights)
        return self.tiling.atom.call(
            accumulator,
            block * self.block_accumulators,
            first[0] + group.offsets[block] + first[1],
            second[0] + second[1],
            accumulate,
        )

    @staticmethod
    def loop(extent: int, unrolled: bool) -> Any:
        """A loop of the kernel, unrolled or not."""
        return T.unroll(extent) if unrolled else T.serial(extent)


class HaloPlan(GroupedColumns, HaloPipelinePlan):
    """The plan of conv2d_halo; it is its own `load` for `wgmma_tile`."""

    weights_first = False
    store = RowStore

    def __init__(self, tiling: HaloTiling) -> None:
        super().__init__(tiling)
        config = tiling.config
        self.load = self
        last = last_columns(config.block_n)
        channels = channels_per_thread(config.block_n)
        self._take_columns(0, channels, (config.block_n - last) // (4 * channels))
        self.residual_registers = max(1, 2 * self.words)
        self.of_last_columns = self._for_columns(config.block_n - last) if last else None

    def _for_columns(self, first: int) -> HaloPlan:
        """A plan like this one of the last columns of a tile, from `first` on."""
        plan = copy.copy(self)
        plan._take_columns(first, LAST_CHANNELS, 1)
        return plan

    def _take_columns(self, first: int, channels: int, groups: int) -> None:
        """Store groups of columns from `first` on, in which a thread has as many channels."""
        workload = self.workload
        self.first_column, self.channels, self.groups = first, channels, groups
        row_epilogue = FragmentRows(
            workload.epilogue,
            channels,
            workload.k,
            tail=self.padded_n != workload.k,
            row_bias=self.classes > 1,
        )
        self.requantise, self.load_residual = row_epilogue.rows(), row_epilogue.load()
        self.words = row_epilogue.residual_words
        self.residual_late = self.words > 0
        self.units = self.blocks * groups

    def block_bytes(self, block: Any) -> Any:
        """Byte of a halo slot where a block of pixels starts."""
        return self.tile.block_row(block) * self.tile.row_bytes

    def pixel(self, m: Any, row: Any) -> Pixel:
        """Output pixel that row `row` of tile m computes."""
        work, tile = self.workload, self.tile
        image, p, q = self.origin(m)
        in_image, in_row, in_column = tile.pixel(row // BLOCK_ROWS, row % BLOCK_ROWS)
        inside = T.And(in_row < tile.shape.height, in_column < tile.shape.width)
        image, p, q = image + in_image, p + in_row, q + in_column
        inside = T.And(inside, T.And(image < work.n, T.And(p < work.p, q < work.q)))
        return Pixel((image * work.p + p) * work.q + q, inside, p, q)

    def bias_offset(self, pixel: Pixel) -> Any:
        """Offset of an output pixel's border class in the flat bias table.

        Rows that compute no pixel read the class of the last one, so that they stay inside it.
        """
        if self.classes == 1:
            return 0
        p, q = T.min(pixel.p, self.workload.p - 1), T.min(pixel.q, self.workload.q - 1)
        return bias_row(self.rows, self.columns, p, q) * self.padded_n

    def unit(self, step: Any, part: int) -> Unit:
        """The unit that comes at a step of the epilogue; a tile has one part."""
        return self.unit_at(step, self.blocks, self.tiling.config.channels_outer)

    def residual_at(self, unit: Unit, half: Any) -> Any:
        """First register of a fragment row's residual, loaded just before its use."""
        return half * self.words
