"""The store of conv2d_swapped: D [channels, pixels] transposed by stmatrix, stored by TMA.

Weight rows are permuted so that a thread's two rows are neighbouring channels: two requantised
bytes of one pixel are then one 16-bit element of the transposed matrix.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.device.memory.ring import RingPosition
from autoq.templates.cuda.device.memory.tma import store_tiled
from autoq.templates.epilogue.cuda.lookups import table_argument
from autoq.templates.epilogue.cuda.requantisation import Form


@T.inline
def prepare_scalars(plan, state, scalars):
    """The first four words of the epilogue's state: what all channels share."""
    T.cuda.func_call(
        plan.functions.prepare_scalars.name,
        state.ptr_to([0]),
        scalars.ptr_to([0]),
        source_code=plan.functions.prepare_scalars.source,
    )


@T.inline
def prepare_channels(plan, state, bias, scale, n, first_block, warp, lane):
    """The rest of the epilogue's state: scale and bias of a thread's two channels of each block."""
    for block in T.unroll(plan.blocks):
        channel = T.meta_var(plan.first_channel(n, first_block + block) + plan.row(warp, lane))
        T.cuda.func_call(
            plan.functions.prepare_channels.name,
            state.ptr_to([4 + 4 * block]),
            scale.ptr_to([channel]),
            bias.ptr_to([channel]),
            source_code=plan.functions.prepare_channels.source,
        )


@T.inline
def requantise_group(
    plan, form, accumulator, packed, to, group, block, m, smem, bias, channel, state, lane
):
    """Eight columns of a block: the 32-bit word of two channels of two pixels."""
    at = T.meta_var(block * plan.block_accumulators + group * 4)
    column = T.meta_var(group * 8 + lane % 4 * 2)
    packed[to] = T.cuda.func_call(
        plan.functions.requantise[form].name,
        accumulator[at],
        accumulator[at + 1],
        accumulator[at + 2],
        accumulator[at + 3],
        state.ptr_to([0]),
        state.ptr_to([4 + 4 * block]),
        bias.ptr_to([channel]),
        plan.bias_offset(m, column),
        plan.bias_offset(m, column + 1),
        *table_argument(plan, smem),
        source_code=plan.functions.requantise[form].source,
        return_type="uint32",
    )


@T.inline
def stage_block(
    plan, form, accumulator, packed, smem, offset, block, m, bias, channel, state, warp, lane
):
    """Requantise a block of 64 channels into a staging buffer: [pixels, 64], swizzled."""
    for quad in T.unroll(plan.column_groups // 4):
        for j in T.unroll(4):
            requantise_group(
                plan, form, accumulator, packed, j, quad * 4 + j, block, m, smem, bias, channel,
                state, lane,
            )  # fmt: skip
        T.ptx["stmatrix.sync.aligned.m8n8.x4.trans.shared.b16"](
            smem.ptr_to([offset + plan.staged(quad * 32 + lane, warp)]),
            *[packed[j] for j in range(4)],
        )
    if plan.column_groups % 4 > 0:
        rest = T.meta_var(plan.column_groups // 4 * 4)
        for j in T.unroll(2):
            requantise_group(
                plan, form, accumulator, packed, j, rest + j, block, m, smem, bias, channel, state,
                lane,
            )  # fmt: skip
        T.ptx["stmatrix.sync.aligned.m8n8.x2.trans.shared.b16"](
            smem.ptr_to([offset + plan.staged(rest * 8 + lane % 16, warp)]),
            *[packed[j] for j in range(2)],
        )


@T.inline
def store_blocks(
    plan, accumulator, packed, state, smem, buffer, y_map, bias, m, n, consumer, first_block, warp,
    lane,
):  # fmt: skip
    """Consumer warpgroup: store its blocks of an output tile from staging buffers."""
    for block in T.unroll(plan.blocks):
        first = T.meta_var(plan.first_channel(n, first_block + block))
        channel = T.meta_var(first + plan.row(warp, lane))
        if (warp == 0) & (lane == 0):
            T.ptx.cp.async_.bulk.wait_group.read(plan.config.store_stages - 1)
        T.cuda.warpgroup_sync(1 + consumer)
        offset = T.meta_var(
            plan.tiling.store_offset
            + (consumer * plan.config.store_stages + buffer.stage) * plan.tiling.store_bytes
        )
        if state[3] == T.uint32(Form.PACK):
            stage_block(
                plan, Form.PACK, accumulator, packed, smem, offset, block, m, bias, channel, state,
                warp, lane,
            )  # fmt: skip
        elif state[3] == T.uint32(Form.SHIFT):
            stage_block(
                plan, Form.SHIFT, accumulator, packed, smem, offset, block, m, bias, channel, state,
                warp, lane,
            )  # fmt: skip
        else:
            stage_block(
                plan, Form.CLAMP, accumulator, packed, smem, offset, block, m, bias, channel, state,
                warp, lane,
            )  # fmt: skip
        T.ptx.fence.proxy.async_.shared__cta()
        T.cuda.warpgroup_sync(1 + consumer)
        if (warp == 0) & (lane == 0):
            T.ptx[store_tiled(plan.y_rank)](
                T.address_of(y_map), *plan.y_coordinates(m, first), smem.ptr_to([offset])
            )
            T.ptx.cp.async_.bulk.commit_group()
        buffer.advance()


@T.meta_class
class TransposedStore:
    """How a consumer of a `SwappedPlan` stores its tiles: by TMA, from buffers of its own."""

    through_map = True
    waits = False

    def __init__(self, plan, bias, scale, scalars, residual, y, y_map):
        self.bias, self.scale, self.scalars, self.y_map = bias, scale, scalars, y_map
        self.packed = T.alloc_local((4,), "uint32")
        self.state = T.alloc_local((4 + 4 * plan.blocks,), "uint32")
        self.buffer = RingPosition(plan.config.store_stages)

    @T.inline
    def start(self, plan, n, first_block, warp, lane):
        """Before the first tile, of channels n."""
        self.buffer.start(0)
        prepare_scalars(plan, self.state, self.scalars)
        if plan.resident:
            prepare_channels(plan, self.state, self.bias, self.scale, n, first_block, warp, lane)

    @T.inline
    def start_tile(self, plan, n, first_block, warp, lane):
        """Before the main loop of a tile."""
        if not plan.resident:
            prepare_channels(plan, self.state, self.bias, self.scale, n, first_block, warp, lane)

    @T.inline
    def store(self, plan, accumulator, smem, m, n, consumer, first_block, warp, lane):
        """A consumer's part of a tile."""
        store_blocks(
            plan, accumulator, self.packed, self.state, smem, self.buffer, self.y_map, self.bias,
            m, n, consumer, first_block, warp, lane,
        )  # fmt: skip

    @T.inline
    def finish(self, warp, lane):
        """Behind the last tile: buffers may go once they are stored."""
        if (warp == 0) & (lane == 0):
            T.ptx.cp.async_.bulk.wait_group(0)
