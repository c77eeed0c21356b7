"""The epilogue of the mixed-input product: D [weight rows, rows of x] to y by stmatrix and TMA."""

from __future__ import annotations

from tvm.script import tirx as T

from autoq.templates.cuda.device.memory.tma import store_tiled


@T.meta_class
class TileStore:
    """How a consumer stores its part of an output tile, through two staging buffers of its own.

    finish: of `finish_pair`, or of `finish` for float32; words: the same memory as float32;
    scales: a thread's scales and biases, as `load_rows` fills them; packed: four words of results;
    turn: which of the two buffers comes next.
    """

    def __init__(self, finish, smem, words, y_map, scales, packed, turn):
        self.finish = finish
        self.smem, self.words, self.y_map = smem, words, y_map
        self.scales, self.packed, self.turn = scales, packed, turn

    @T.inline
    def stage_pair(self, plan, accumulator, offset, block, group, within, count, thread):
        """One or two groups of eight columns of a block of 64 weight rows, into a buffer."""
        for j in T.unroll(count):
            for half in T.unroll(2):
                at = T.meta_var(block * plan.atom.d_registers + (group + j) * 4 + half * 2)
                self.packed[2 * j + half] = T.cuda.func_call(
                    self.finish.name,
                    accumulator[at],
                    accumulator[at + 1],
                    self.scales[4 * block + half],
                    self.scales[4 * block + 2 + half],
                    source_code=self.finish.source,
                    return_type="uint32",
                )
        row = T.meta_var(plan.staging.place_matrix_row(thread, within, count))
        turn = T.meta_var("" if plan.workload.weight_left else ".trans")
        T.ptx[f"stmatrix.sync.aligned.m8n8.x{2 * count}{turn}.shared.b16"](
            self.smem.ptr_to([offset + row]),
            *[self.packed[i] for i in range(2 * count)],
        )

    @T.inline
    def stage_floats(self, plan, accumulator, offset, block, group, within, thread):
        """A group of eight columns of a block of 64 weight rows, float32, into a buffer."""
        for half in T.unroll(2):
            for value in T.unroll(2):
                place = T.meta_var(plan.staging.place_float(thread, within, half, value))
                self.words[(offset + place) // 4] = T.cuda.func_call(
                    self.finish.name,
                    accumulator[block * plan.atom.d_registers + group * 4 + half * 2 + value],
                    self.scales[4 * block + half],
                    self.scales[4 * block + 2 + half],
                    source_code=self.finish.source,
                    return_type="float32",
                )

    @T.inline
    def stage_slice(self, plan, accumulator, offset, block, slice_, thread):
        """A slice of a block's columns into a buffer."""
        groups = T.meta_var(plan.staging.width // 8)
        first = T.meta_var(plan.staging.first(slice_) // 8)
        if plan.staging.value_bytes == 4:
            for i in T.unroll(groups):
                self.stage_floats(plan, accumulator, offset, block, first + i, i, thread)
        else:
            for pair in T.unroll(groups // 2):
                self.stage_pair(
                    plan, accumulator, offset, block, first + 2 * pair, 2 * pair, 2, thread
                )
            if groups % 2 > 0:
                last = T.meta_var(groups - 1)
                self.stage_pair(plan, accumulator, offset, block, first + last, last, 1, thread)

    @T.inline
    def store(self, plan, accumulator, place, thread):
        """A consumer's part of the tile at a place."""
        for block in T.unroll(plan.config.row_blocks):
            for slice_ in T.unroll(plan.staging.slices):
                if thread.first:
                    T.ptx.cp.async_.bulk.wait_group.read(1)
                T.cuda.warpgroup_sync(2 + thread.consumer)
                offset = T.meta_var(
                    plan.store_offset + (2 * thread.consumer + self.turn[0]) * plan.staging.bytes
                )
                self.stage_slice(plan, accumulator, offset, block, slice_, thread)
                T.ptx.fence.proxy.async_.shared__cta()
                T.cuda.warpgroup_sync(2 + thread.consumer)
                if thread.first:
                    block_row = T.meta_var(
                        place.n * plan.config.blocks
                        + thread.consumer * plan.config.row_blocks + block
                    )  # fmt: skip
                    for box in T.unroll(plan.staging.boxes):
                        self.store_box(plan, offset, box, block_row * 64, slice_, place)
                    T.ptx.cp.async_.bulk.commit_group()
                self.turn[0] = 1 - self.turn[0]

    @T.inline
    def store_box(self, plan, offset, box, row, slice_, place):
        """One thread: a box of a staging buffer to y; row: the first weight row of the buffer."""
        column = T.meta_var(place.m * plan.config.block_m + plan.staging.first(slice_))
        at = T.meta_var((column, row) if plan.workload.weight_left else (row + box * 32, column))
        T.ptx[store_tiled(2)](
            T.address_of(self.y_map), *at,
            self.smem.ptr_to([offset + box * plan.staging.box_bytes]),
        )  # fmt: skip
