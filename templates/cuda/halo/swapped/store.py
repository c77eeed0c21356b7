"""The store of conv2d_swapped: D [channels, pixels] transposed by stmatrix, stored by TMA.

Weight rows are permuted so that a thread's two rows are neighbouring channels: two requantised
bytes of one pixel are then one 16-bit element of the transposed matrix.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.device.memory.ring import RingPosition
from autoq.templates.cuda.device.memory.tma import store_tiled
from autoq.templates.cuda.halo.swapped.channel_states import ChannelFunction, ChannelStates
from autoq.templates.epilogue.cuda.parameters.lookups import table_argument
from autoq.templates.epilogue.cuda.values.requantisation import Form


@T.meta_class
class ChannelBlock:
    """64 channels of the pixels of tile m, which a consumer stores together.

    index: among the consumer's blocks; channel: the lower of a thread's two in it.
    """

    def __init__(self, index, channel, m):
        self.index = index
        self.channel = channel
        self.m = m


@T.meta_class
class TransposedStore(ChannelStates):
    """How a consumer of a `SwappedPlan` stores its tiles: by TMA, from buffers of its own.

    state: what all channels share in four words, then scale and bias of a thread's two channels of
    each block.
    """

    through_map = True
    waits = False

    def __init__(self, plan, bias, scale, scalars, residual, y, y_map, row_scale=None):
        self.scalars, self.y_map = scalars, y_map
        self.describe_channels(ChannelFunction(plan.functions.prepare_channels, 4, 4), scale, bias)
        self.packed = T.alloc_local((4,), "uint32")
        self.state = T.alloc_local((4 + 4 * plan.blocks,), "uint32")
        self.buffer = RingPosition(plan.config.store_stages)

    @T.inline
    def start(self, plan, n, first_block, thread):
        """Before the first tile, of channels n."""
        self.buffer.start(0)
        T.cuda.func_call(
            plan.functions.prepare_scalars.name,
            self.state.ptr_to([0]),
            self.scalars.ptr_to([0]),
            source_code=plan.functions.prepare_scalars.source,
        )
        if plan.resident:
            self.prepare_channels(plan, n, first_block, thread)

    @T.inline
    def requantise_group(self, plan, form, accumulator, smem, block, group, to, lane):
        """Eight columns of a block: word `to` has two channels of two pixels."""
        at = T.meta_var(block.index * plan.block_accumulators + group * 4)
        column = T.meta_var(group * 8 + lane % 4 * 2)
        self.packed[to] = T.cuda.func_call(
            plan.functions.requantise[form].name,
            accumulator[at],
            accumulator[at + 1],
            accumulator[at + 2],
            accumulator[at + 3],
            self.state.ptr_to([0]),
            self.state.ptr_to([4 + 4 * block.index]),
            self.bias.ptr_to([block.channel]),
            plan.bias_offset(block.m, column),
            plan.bias_offset(block.m, column + 1),
            *table_argument(plan, smem),
            source_code=plan.functions.requantise[form].source,
            return_type="uint32",
        )

    @T.inline
    def stage_block(self, plan, form, accumulator, smem, offset, block, thread):
        """Requantise a block into a staging buffer: [pixels, 64], swizzled."""
        for quad in T.unroll(plan.column_groups // 4):
            for j in T.unroll(4):
                self.requantise_group(
                    plan, form, accumulator, smem, block, quad * 4 + j, j, thread.lane
                )
            T.ptx["stmatrix.sync.aligned.m8n8.x4.trans.shared.b16"](
                smem.ptr_to([offset + plan.staged(quad * 32 + thread.lane, thread.warp)]),
                *[self.packed[j] for j in range(4)],
            )
        if plan.column_groups % 4 > 0:
            rest = T.meta_var(plan.column_groups // 4 * 4)
            for j in T.unroll(2):
                self.requantise_group(
                    plan, form, accumulator, smem, block, rest + j, j, thread.lane
                )
            T.ptx["stmatrix.sync.aligned.m8n8.x2.trans.shared.b16"](
                smem.ptr_to([offset + plan.staged(rest * 8 + thread.lane % 16, thread.warp)]),
                *[self.packed[j] for j in range(2)],
            )

    @T.inline
    def store(self, plan, accumulator, smem, place, first_block, thread):
        """A consumer's part of a tile, block by block from staging buffers."""
        for index in T.unroll(plan.blocks):
            first = T.meta_var(plan.first_channel(place.n, first_block + index))
            channel = T.meta_var(first + plan.row(thread.warp, thread.lane))
            block = T.meta_var(ChannelBlock(index, channel, place.m))
            if thread.first:
                T.ptx.cp.async_.bulk.wait_group.read(plan.config.store_stages - 1)
            T.cuda.warpgroup_sync(1 + thread.consumer)
            buffer = T.meta_var(thread.consumer * plan.config.store_stages + self.buffer.stage)
            offset = T.meta_var(plan.tiling.store_offset + buffer * plan.tiling.store_bytes)
            if self.state[3] == T.uint32(Form.PACK):
                self.stage_block(plan, Form.PACK, accumulator, smem, offset, block, thread)
            elif self.state[3] == T.uint32(Form.SHIFT):
                self.stage_block(plan, Form.SHIFT, accumulator, smem, offset, block, thread)
            else:
                self.stage_block(plan, Form.CLAMP, accumulator, smem, offset, block, thread)
            T.ptx.fence.proxy.async_.shared__cta()
            T.cuda.warpgroup_sync(1 + thread.consumer)
            if thread.first:
                T.ptx[store_tiled(plan.y_rank)](
                    T.address_of(self.y_map),
                    *plan.y_coordinates(place.m, first),
                    smem.ptr_to([offset]),
                )
                T.ptx.cp.async_.bulk.commit_group()
            self.buffer.advance()

    @T.inline
    def finish(self, thread):
        """Behind the last tile: buffers may go once they are stored."""
        if thread.first:
            T.ptx.cp.async_.bulk.wait_group(0)
