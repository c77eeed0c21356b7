"""The epilogue of the mixed-input product: D [weight rows, rows of x] to y by stmatrix and TMA."""

from __future__ import annotations

from tvm.script import tirx as T

from autoq.templates.cuda.device.memory.tma import store_tiled
from autoq.templates.cuda.mixed.pair import of_pair
from autoq.templates.cuda.mixed.wgmma.residuals import read_matrices


@T.meta_class
class TileResults:
    """A consumer thread's sums of a tile at a place."""

    def __init__(self, plan, accumulator, place, thread):
        self.plan, self.accumulator = plan, accumulator
        self.place, self.thread = place, thread

    def first_row(self, block):
        """First weight row of a row block of the consumer."""
        config = self.plan.config
        own = self.thread.consumer * config.row_blocks + block
        return (self.place.n * config.blocks + own) * 64

    @property
    def items(self):
        """Slices of all row blocks of a consumer."""
        return self.plan.config.row_blocks * self.plan.staging.slices

    def coordinates(self, box, block, slice_):
        """Where a box of a slice of a row block lies in y."""
        column = self.place.m * self.plan.config.block_m + self.plan.staging.first(slice_)
        return self.plan.staging.coordinates(self.place, box, self.first_row(block), column)


@T.meta_class
class TileStore:
    """How a consumer stores its part of an output tile, through two staging buffers of its own.

    finishing: the epilogue's functions; shared: the block's memory, as bytes and as float32;
    y_maps: the tensor map of y, or of the y of each product; inputs: of results; residuals: on
    their way; scales: a thread's scales and biases, as `load_rows` fills them; packed: four words
    of results; turn: which of the two buffers comes next.
    """

    def __init__(self, finishing, shared, y_maps, inputs, residuals, scales, packed, turn):
        self.finishing = finishing
        self.smem, self.words = shared
        self.y_maps = y_maps
        self.inputs, self.residuals = inputs, residuals
        self.scales, self.packed, self.turn = scales, packed, turn

    def map_of(self, product):
        """Where the tensor map of a product's results is."""
        found = T.address_of(self.y_maps[0])
        for number, y_map in enumerate(self.y_maps[1:], 1):
            found = T.if_then_else(product == number, T.address_of(y_map), found)
        return found

    def results(self, of, spot, added):
        """What follows the sums of a spot: operands of the epilogue's function, by value.

        spot: (row block, group of eight columns, half, values of the pair); added: to each.
        """
        block, group, half, values = spot
        at = block * of.plan.atom.d_registers + group * 4 + half * 2
        columns = [
            of.place.m * of.plan.config.block_m + group * 8 + of.thread.lane % 4 * 2 + value
            for value in values
        ]
        sums = [of.accumulator[at + value] for value in values]
        constants = (self.scales[4 * block + half], self.scales[4 * block + 2 + half])
        return self.inputs.operands(sums, constants, of.place.product, columns, added)

    def added_pair(self, of, index):
        """What is added to the pair of results that a word will hold, which holds it so far."""
        if not of.plan.workload.residual:
            return []
        halves = [of_pair(of.plan.workload.out_dtype, upper) for upper in range(2)]
        return [
            T.cuda.func_call(
                half.name, self.packed[index], source_code=half.source, return_type="float32"
            )
            for half in halves
        ]

    @T.inline
    def stage_pair(self, of, offset, block, group, within, count):
        """One or two groups of eight columns of a block of 64 weight rows, into a buffer."""
        row = T.meta_var(of.plan.staging.place_matrix_row(of.thread, within, count))
        if of.plan.workload.residual:
            read = T.meta_var(read_matrices(2 * count, not of.plan.workload.weight_left))
            T.cuda.func_call(
                read.name, self.packed.ptr_to([0]), self.smem.ptr_to([offset + row]),
                source_code=read.source,
            )  # fmt: skip
        for j in T.unroll(count):
            for half in T.unroll(2):
                spot = T.meta_var((block, group + j, half, (0, 1)))
                self.packed[2 * j + half] = T.cuda.func_call(
                    self.finishing.pair.name,
                    *self.results(of, spot, self.added_pair(of, 2 * j + half)),
                    source_code=self.finishing.pair.source,
                    return_type="uint32",
                )
        turn = T.meta_var("" if of.plan.workload.weight_left else ".trans")
        T.ptx[f"stmatrix.sync.aligned.m8n8.x{2 * count}{turn}.shared.b16"](
            self.smem.ptr_to([offset + row]),
            *[self.packed[i] for i in range(2 * count)],
        )

    @T.inline
    def stage_floats(self, of, offset, block, group, within):
        """A group of eight columns of a block of 64 weight rows, float32, into a buffer."""
        for half in T.unroll(2):
            for value in T.unroll(2):
                at = T.meta_var(
                    offset + of.plan.staging.place_float(of.thread, within, half, value)
                )
                spot = T.meta_var((block, group, half, (value,)))
                added = T.meta_var([self.words[at // 4]] if of.plan.workload.residual else [])
                self.words[at // 4] = T.cuda.func_call(
                    self.finishing.one.name,
                    *self.results(of, spot, added),
                    source_code=self.finishing.one.source,
                    return_type="float32",
                )

    @T.inline
    def stage_slice(self, of, offset, block, slice_):
        """A slice of a block's columns into a buffer."""
        groups = T.meta_var(of.plan.staging.width // 8)
        first = T.meta_var(of.plan.staging.first(slice_) // 8)
        if of.plan.staging.value_bytes == 4:
            for i in T.unroll(groups):
                self.stage_floats(of, offset, block, first + i, i)
        else:
            for pair in T.unroll(groups // 2):
                self.stage_pair(of, offset, block, first + 2 * pair, 2 * pair, 2)
            if groups % 2 > 0:
                last = T.meta_var(groups - 1)
                self.stage_pair(of, offset, block, first + last, last, 1)

    @T.inline
    def begin(self, of, storing):
        """A consumer, one of those `storing`, before the products of a tile.

        Where no sums of other blocks come to its staging buffers, its residual does now.
        """
        if of.plan.workload.residual & (not of.plan.config.splits):  # noqa: SIM102
            if storing:
                self.residuals.begin(of, self.turn[0])

    @T.inline
    def store(self, of):
        """A consumer's part of the tile."""
        if of.plan.workload.residual & of.plan.config.splits:
            # Sums of other blocks lay in the buffers.
            T.ptx.fence.proxy.async_.shared__cta()
            T.cuda.warpgroup_sync(2 + of.thread.own)
            self.residuals.begin(of, self.turn[0])
        for block in T.unroll(of.plan.config.row_blocks):
            for slice_ in T.unroll(of.plan.staging.slices):
                item = T.meta_var(block * of.plan.staging.slices + slice_)
                if of.plan.workload.residual:
                    self.residuals.wait(of.thread.own, self.turn[0])
                else:
                    if of.thread.first:
                        T.ptx.cp.async_.bulk.wait_group.read(1)
                    T.cuda.warpgroup_sync(2 + of.thread.own)
                offset = T.meta_var(
                    of.plan.store_at(of.thread.own) + self.turn[0] * of.plan.staging.bytes
                )
                self.stage_slice(of, offset, block, slice_)
                T.ptx.fence.proxy.async_.shared__cta()
                T.cuda.warpgroup_sync(2 + of.thread.own)
                if of.thread.first:
                    for box in T.unroll(of.plan.staging.boxes):
                        self.store_box(of, offset, box, block, slice_)
                    T.ptx.cp.async_.bulk.commit_group()
                    self.residuals.go_on(of, item, self.turn[0])
                self.turn[0] = 1 - self.turn[0]

    @T.inline
    def store_box(self, of, offset, box, block, slice_):
        """One thread: a box of a staging buffer to y."""
        at = T.meta_var(of.coordinates(box, block, slice_))
        T.ptx[store_tiled(of.plan.y_rank)](
            self.map_of(of.place.product), *at,
            self.smem.ptr_to([offset + box * of.plan.staging.box_bytes]),
        )  # fmt: skip
