"""Epilogue of conv2d_swapped: D [channels, pixels] transposed by stmatrix, stored by TMA.

Weight rows are permuted so that a thread's two rows are neighbouring channels: two requantised
bytes of one pixel are then one 16-bit element of the transposed matrix.
"""

from tvm.script import tirx as T

from autoq.templates.tiles.tma import store_tiled


@T.inline
def requantise_group(plan, accumulator, packed, to, group, block, m, bias, channel, scales, lane):
    """Eight columns of a block: the 32-bit word of two channels of two pixels."""
    at = T.meta_var(block * plan.block_accumulators + group * 4)
    column = T.meta_var(group * 8 + lane % 4 * 2)
    left = T.meta_var(plan.bias_offset(m, column) + channel)
    right = T.meta_var(plan.bias_offset(m, column + 1) + channel)
    packed[to] = T.cuda.func_call(
        plan.requantise.name,
        accumulator[at],
        accumulator[at + 1],
        accumulator[at + 2],
        accumulator[at + 3],
        bias.ptr_to([left]),
        bias.ptr_to([right]),
        scales[0],
        scales[1],
        scales[2],
        scales[3],
        scales[4],
        source_code=plan.requantise.source,
        return_type="uint32",
    )


@T.inline
def stage_block(
    plan, accumulator, packed, smem, offset, block, m, bias, channel, scales, warp, lane
):
    """Requantise a block of 64 channels into a staging buffer: [pixels, 64], swizzled."""
    for quad in T.unroll(plan.column_groups // 4):
        for j in T.unroll(4):
            requantise_group(
                plan, accumulator, packed, j, quad * 4 + j, block, m, bias, channel, scales, lane
            )
        T.ptx["stmatrix.sync.aligned.m8n8.x4.trans.shared.b16"](
            smem.ptr_to([offset + plan.staged(quad * 32 + lane, warp)]),
            *[packed[j] for j in range(4)],
        )
    if plan.column_groups % 4 > 0:
        rest = T.meta_var(plan.column_groups // 4 * 4)
        for j in T.unroll(2):
            requantise_group(
                plan, accumulator, packed, j, rest + j, block, m, bias, channel, scales, lane
            )
        T.ptx["stmatrix.sync.aligned.m8n8.x2.trans.shared.b16"](
            smem.ptr_to([offset + plan.staged(rest * 8 + lane % 16, warp)]),
            *[packed[j] for j in range(2)],
        )


@T.inline
def store_blocks(
    plan,
    accumulator,
    packed,
    scales,
    smem,
    buffer,
    y_map,
    bias,
    scale,
    scalars,
    m,
    n,
    consumer,
    first_block,
    warp,
    lane,
):
    """Consumer warpgroup: store its blocks of an output tile from staging buffers."""
    image, p, q = plan.origin(m)
    for block in T.unroll(plan.blocks):
        first = T.meta_var(n * plan.config.block_n + (first_block + block) * 64)
        channel = T.meta_var(first + warp * 16 + lane // 4 * 2)
        scales[0] = scale[channel]
        scales[1] = scale[channel + 1]
        for i in T.unroll(3):
            scales[2 + i] = scalars[5 + i]
        if (warp == 0) & (lane == 0):
            T.ptx.cp.async_.bulk.wait_group.read(plan.config.store_stages - 1)
        T.cuda.warpgroup_sync(1 + consumer)
        offset = T.meta_var(
            plan.layout.store_offset
            + (consumer * plan.config.store_stages + buffer.stage) * plan.layout.store_bytes
        )
        stage_block(
            plan, accumulator, packed, smem, offset, block, m, bias, channel, scales, warp, lane
        )
        T.ptx.fence.proxy.async_.shared__cta()
        T.cuda.warpgroup_sync(1 + consumer)
        if (warp == 0) & (lane == 0):
            T.ptx[store_tiled(4)](T.address_of(y_map), first, q, p, image, smem.ptr_to([offset]))
            T.ptx.cp.async_.bulk.commit_group()
        buffer.advance()
