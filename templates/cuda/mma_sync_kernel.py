"""The mma.sync convolution as a PrimFunc: implicit GEMM over output pixels, channels and taps.

From sm_80 tiles arrive by cp.async in a ring of stages and multiply by m16n8k32; sm_75 has
neither, so its loads wait in registers while the other of two stages multiplies by m8n8k16.
"""

import math

from autoq.templates.border import border_classes
from autoq.templates.cuda.mma_sync_tile import UNIT_BYTES, as_conv2d, unit_offset
from autoq.templates.tiles.raster import tile_of
from autoq.templates.tiles.requantise import RowEpilogue
from tvm.script import tirx as T

# Tiles of 8 neighbouring pixel blocks run together, so that their weights stay in the L2.
_RASTER_GROUP = 8
_LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"


def _taps_inside(conv, first_h, first_w):
    """Bit r says filter row r lies inside the image, bit (filter rows + s) filter column s."""
    bits = T.uint32(0)
    for row in range(conv.r):
        at = first_h + row * conv.dilation[0]
        inside = T.And(at >= 0, at < conv.h)
        bits = bits | T.if_then_else(inside, T.uint32(1 << row), T.uint32(0))
    for column in range(conv.s):
        at = first_w + column * conv.dilation[1]
        inside = T.And(at >= 0, at < conv.w)
        bits = bits | T.if_then_else(inside, T.uint32(1 << (conv.r + column)), T.uint32(0))
    return bits


def _class_of(classes, position):
    """`BorderClasses.of` as an expression."""
    after = T.max(position - (classes.extent - classes.tail) + 1, 0) + classes.head
    return T.if_then_else(position < classes.head, position, after)


def _bias_row(conv, pixel):
    """Row of the bias table that an output pixel takes."""
    rows, columns = border_classes(conv)
    if rows.count * columns.count == 1:
        return 0
    row = _class_of(rows, pixel // conv.q % conv.p)
    return row * columns.count + _class_of(columns, pixel % conv.q)


def build_kernel(workload, tiling, asynchronous):
    """PrimFunc (x, [residual], weight, bias, scale, scalars, y) of a tiled convolution.

    workload gives the buffers' shapes; `asynchronous` chooses cp.async and m16n8k32 (sm_80)
    over register staging and m8n8k16 (sm_75). Constants are packed as by `pack_weight` and
    `pack_channels`, bias int32 [row classes * column classes, padded_k].
    """
    conv, config, epilogue = as_conv2d(workload), tiling.config, workload.epilogue
    rows, group_k, group_c = tiling.rows, tiling.group_k, tiling.group_c
    threads, steps, stages = config.threads, tiling.steps, config.stages
    block_m, block_n, block_k = config.block_m, config.block_n, config.block_k
    row_tiles, column_tiles = config.WARP_ROW_TILES, config.WARP_COL_TILES
    warp_m, warp_n, run = config.warp_m, config.warp_n, config.run
    column_groups = config.column_groups
    piece, per_stage, pieces = tiling.piece, tiling.pieces_per_stage, tiling.pieces
    copies_a, copies_b = block_m * per_stage, block_n * block_k // UNIT_BYTES
    rounds_a, rounds_b = -(-copies_a // threads), -(-copies_b // threads)
    stage_bytes, b_start = config.stage_bytes, block_m * config.row_bytes
    units = block_k // UNIT_BYTES
    padded = any(conv.padding)
    ragged = pieces % per_stage != 0
    grid = tiling.tiles_m * tiling.tiles_n
    signs = f"{'u8' if conv.in_dtype == 'uint8' else 's8'}.s8"
    shape = "m16n8k32" if asynchronous else "m8n8k16"
    mma = f"mma.sync.aligned.{shape}.row.col.s32.{signs}.s32"
    copy_a = f"cp.async.{'cg' if piece == 16 else 'ca'}.shared.global.L2::128B"
    copy_b = "cp.async.cg.shared.global.L2::128B"
    words = piece // 4
    suffix = {1: "b32", 2: "v2.b32", 4: "v4.b32"}[words]
    load_a, keep_a = f"ld.global.{suffix}", f"st.shared.{suffix}"
    rows_of_bias = border_classes(conv)[0].count * border_classes(conv)[1].count
    weight_shape = (tiling.tiles_n, steps, block_n, block_k)
    bias_shape = (rows_of_bias, tiling.padded_k)
    x_size, y_size = math.prod(conv.x_shape), math.prod(conv.y_shape)
    residual_dtype = epilogue.residual_dtype or epilogue.out_dtype
    fused = RowEpilogue(epilogue, run, group_k, group_k % block_n != 0, rows_of_bias > 1)
    load_residual, requantise = fused.load(), fused.rows()
    residual_words = fused.residual_words

    def a_offset(index):
        """Byte offset in a stage of a copy of the pixel tile."""
        byte = index % per_stage * piece
        return unit_offset(config, index // per_stage, byte // UNIT_BYTES) + byte % UNIT_BYTES

    def b_offset(index):
        return b_start + unit_offset(config, index // units, index % units)

    def tap(step, index):
        """Filter row, filter column and first channel of a copy of the pixel tile."""
        if tiling.channel_block == block_k:
            row, column, channel = tiling.tap_of(step * per_stage)
            return row, column, channel + index % per_stage * piece
        return tiling.tap_of(step * per_stage + index % per_stage)

    def inside(step, index, row, column, taps):
        """Whether a copy reads the image, not what surrounds it or fills the last stage."""
        found = T.bool(True)
        if padded:
            bits = (taps >> T.cast(row, "uint32")) & (taps >> T.cast(column + conv.r, "uint32"))
            found = T.cast(bits & T.uint32(1), "bool")
        if ragged:
            found = T.And(found, step * per_stage + index % per_stage < pieces)
        return found

    @T.inline
    def body(x, residual, weight, bias, scale, scalars, y):
        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": config.blocks_per_sm})
        block = T.cta_id([grid])
        thread = T.thread_id([threads])
        smem = T.alloc_buffer((config.smem_bytes,), "uint8", scope="shared.dyn", align=128)
        tile = T.meta_var(tile_of(block, tiling.tiles_m, tiling.tiles_n, _RASTER_GROUP))
        m_tile: T.int32 = tile[0]
        n_tile: T.int32 = tile[1]
        group: T.int32 = n_tile // tiling.group_tiles_n
        first_channel: T.int32 = n_tile % tiling.group_tiles_n * block_n
        lane: T.int32 = thread % 32
        warp_row: T.int32 = thread // 32 % config.BLK_ROW_WARPS
        warp_column: T.int32 = thread // 32 // config.BLK_ROW_WARPS
        accumulator = T.alloc_local((config.accumulators,), "uint32")
        a = T.alloc_local((2 * row_tiles * 4,), "uint32")
        b = T.alloc_local((2 * column_tiles * 2,), "uint32")
        origin = T.alloc_local((rounds_a,), "int32")
        taps = T.alloc_local((rounds_a,), "uint32")
        held_a = T.alloc_local((rounds_a * words,), "uint32")
        held_b = T.alloc_local((rounds_b * 4,), "uint32")
        for i in T.unroll(config.accumulators):
            accumulator[i] = T.uint32(0)
        for i in T.unroll(rounds_a):
            pixel: T.int32 = T.min(m_tile * block_m + (i * threads + thread) // per_stage, rows - 1)
            first_h: T.int32 = pixel // conv.q % conv.p * conv.stride[0] - conv.padding[0]
            first_w: T.int32 = pixel % conv.q * conv.stride[1] - conv.padding[1]
            image = T.meta_var(pixel // (conv.p * conv.q))
            origin[i] = ((image * conv.h + first_h) * conv.w + first_w) * conv.c + group * group_c
            taps[i] = _taps_inside(conv, first_h, first_w)

        @T.inline
        def fetch_a(step, stage, i):
            index = T.meta_var(i * threads + thread)
            at = T.meta_var(tap(step, index))
            offset = T.meta_var(
                origin[i]
                + (at[0] * (conv.dilation[0] * conv.w) + at[1] * conv.dilation[1]) * conv.c
                + at[2]
            )
            real: T.let = inside(step, index, at[0], at[1], taps[i])
            source: T.int32 = T.if_then_else(real, offset, 0)
            if asynchronous:
                T.ptx[copy_a](
                    smem.ptr_to([stage * stage_bytes + a_offset(index)]),
                    T.address_of(x[source]),
                    piece,
                    T.if_then_else(real, T.uint32(piece), T.uint32(0)),
                )
            else:
                T.ptx[load_a](
                    *[held_a[i * words + j] for j in range(words)], T.address_of(x[source])
                )
                if T.Not(real):
                    for j in T.unroll(words):
                        held_a[i * words + j] = T.uint32(0)

        @T.inline
        def fetch_b(step, stage, i):
            index = T.meta_var(i * threads + thread)
            source = T.meta_var(
                T.address_of(weight[n_tile, step, index // units, index % units * UNIT_BYTES])
            )
            if asynchronous:
                T.ptx[copy_b](smem.ptr_to([stage * stage_bytes + b_offset(index)]), source, 16)
            else:
                T.ptx["ld.global.v4.b32"](*[held_b[i * 4 + j] for j in range(4)], source)

        @T.inline
        def keep(stage, i, held, count, name, offset):
            T.ptx[name](
                smem.ptr_to([stage * stage_bytes + offset]),
                *[held[i * count + j] for j in range(count)],
            )

        @T.inline
        def fetch(step, stage):
            for i in T.unroll(rounds_a):
                if (i + 1) * threads <= copies_a or i * threads + thread < copies_a:
                    fetch_a(step, stage, i)
            for i in T.unroll(rounds_b):
                if (i + 1) * threads <= copies_b or i * threads + thread < copies_b:
                    fetch_b(step, stage, i)

        @T.inline
        def keep_all(stage):
            for i in T.unroll(rounds_a):
                if i * threads + thread < copies_a:
                    keep(stage, i, held_a, words, keep_a, a_offset(i * threads + thread))
            for i in T.unroll(rounds_b):
                if i * threads + thread < copies_b:
                    keep(stage, i, held_b, 4, "st.shared.v4.b32", b_offset(i * threads + thread))

        @T.inline
        def read_fragments(stage, k_tile, buffer):
            for i in T.unroll(row_tiles):
                row = T.meta_var(warp_row * warp_m + i * 16 + lane % 16)
                at = T.meta_var(unit_offset(config, row, k_tile * 2 + lane // 16))
                T.ptx[_LDMATRIX](
                    *[a[(buffer * row_tiles + i) * 4 + j] for j in range(4)],
                    smem.ptr_to([stage * stage_bytes + at]),
                )
            for i in T.unroll(column_tiles // 2):
                row = T.meta_var(warp_column * warp_n + i * 16 + lane // 16 * 8 + lane % 8)
                at = T.meta_var(unit_offset(config, row, k_tile * 2 + lane // 8 % 2))
                T.ptx[_LDMATRIX](
                    *[b[(buffer * column_tiles + i * 2) * 2 + j] for j in range(4)],
                    smem.ptr_to([stage * stage_bytes + b_start + at]),
                )

        @T.inline
        def multiply(buffer, i, j):
            d = T.meta_var((i * column_tiles + j) * 4)
            from_a = T.meta_var((buffer * row_tiles + i) * 4)
            from_b = T.meta_var((buffer * column_tiles + j) * 2)
            if asynchronous:
                T.ptx[mma](
                    *[accumulator[d + e] for e in range(4)],
                    *[a[from_a + e] for e in range(4)],
                    *[b[from_b + e] for e in range(2)],
                    *[accumulator[d + e] for e in range(4)],
                )
            else:
                for half in T.unroll(2):
                    for k_half in T.unroll(2):
                        T.ptx[mma](
                            accumulator[d + 2 * half],
                            accumulator[d + 2 * half + 1],
                            a[from_a + 2 * k_half + half],
                            b[from_b + k_half],
                            accumulator[d + 2 * half],
                            accumulator[d + 2 * half + 1],
                        )

        @T.inline
        def compute(stage):
            read_fragments(stage, 0, 0)
            for k in T.unroll(config.CHUNK):
                if k + 1 < config.CHUNK:
                    read_fragments(stage, k + 1, (k + 1) % 2)
                for i in T.unroll(row_tiles):
                    for j in T.unroll(column_tiles):
                        multiply(k % 2, i, j)

        if asynchronous:
            for s in T.unroll(stages - 1):
                if s < steps:
                    fetch(s, s)
                T.ptx.cp.async_.commit_group()
            for step in T.serial(steps):
                T.ptx.cp.async_.wait_group(stages - 2)
                T.cuda.cta_sync()
                if step + stages - 1 < steps:
                    fetch(step + stages - 1, (step + stages - 1) % stages)
                T.ptx.cp.async_.commit_group()
                compute(step % stages)
        else:
            fetch(0, 0)
            keep_all(0)
            T.cuda.cta_sync()
            for step in T.serial(steps):
                if step + 1 < steps:
                    fetch(step + 1, 0)
                compute(step % 2)
                if step + 1 < steps:
                    keep_all((step + 1) % 2)
                T.cuda.cta_sync()

        addends = T.alloc_local((max(2 * column_groups * residual_words, 1),), "uint32")
        column = T.meta_var(warp_column * warp_n + lane % 4 * run)
        for i in T.unroll(row_tiles):
            pixel: T.int32 = m_tile * block_m + warp_row * warp_m + i * 16 + lane // 4
            for half in T.unroll(2):
                if residual_words > 0:
                    for g in T.unroll(column_groups):
                        channel = T.meta_var(first_channel + column + g * 4 * run)
                        at = T.meta_var((pixel + half * 8) * conv.k + group * group_k + channel)
                        T.cuda.func_call(
                            load_residual.name,
                            addends.ptr_to([(half * column_groups + g) * residual_words]),
                            T.address_of(residual[at]),
                            T.cast(pixel + half * 8 < rows, "int32"),
                            group_k - channel,
                            source_code=load_residual.source,
                        )
            bias_row: T.int32 = _bias_row(conv, pixel)
            bias_row_8: T.int32 = _bias_row(conv, pixel + 8)
            for g in T.unroll(column_groups):
                channel = T.meta_var(first_channel + column + g * 4 * run)
                at = T.meta_var(pixel * conv.k + group * group_k + channel)
                constant = T.meta_var(n_tile * block_n + column + g * 4 * run)
                T.cuda.func_call(
                    requantise.name,
                    accumulator.ptr_to([(i * column_tiles + g * run // 2) * 4]),
                    scale.ptr_to([constant]),
                    bias.ptr_to([bias_row, constant]),
                    bias.ptr_to([bias_row_8, constant]),
                    scalars.ptr_to([0]),
                    addends.ptr_to([g * residual_words]),
                    addends.ptr_to([(column_groups + g) * residual_words]),
                    T.address_of(y[at]),
                    T.address_of(y[at + 8 * conv.k]),
                    T.cast(pixel < rows, "int32"),
                    T.cast(pixel + 8 < rows, "int32"),
                    group_k - channel,
                    source_code=requantise.source,
                )

    @T.inline
    def flat(x, residual, weight, bias, scale, scalars, y):
        x_flat = T.decl_buffer((x_size,), conv.in_dtype, data=x.data)
        y_flat = T.decl_buffer((y_size,), epilogue.out_dtype, data=y.data)
        residual_flat = T.decl_buffer((y_size,), residual_dtype, data=residual.data)
        body(x_flat, residual_flat, weight, bias, scale, scalars, y_flat)

    @T.prim_func
    def plain(
        x_ptr: T.handle,
        weight_ptr: T.handle,
        bias_ptr: T.handle,
        scale_ptr: T.handle,
        scalars_ptr: T.handle,
        y_ptr: T.handle,
    ):
        x = T.match_buffer(x_ptr, workload.x_shape, conv.in_dtype, align=16)
        weight = T.match_buffer(weight_ptr, weight_shape, "int8", align=16)
        bias = T.match_buffer(bias_ptr, bias_shape, "int32", align=16)
        scale = T.match_buffer(scale_ptr, (tiling.padded_k,), "float32", align=16)
        scalars = T.match_buffer(scalars_ptr, (8,), "float32", align=16)
        y = T.match_buffer(y_ptr, workload.y_shape, epilogue.out_dtype, align=16)
        flat(x, y, weight, bias, scale, scalars, y)

    @T.prim_func
    def with_residual(
        x_ptr: T.handle,
        residual_ptr: T.handle,
        weight_ptr: T.handle,
        bias_ptr: T.handle,
        scale_ptr: T.handle,
        scalars_ptr: T.handle,
        y_ptr: T.handle,
    ):
        x = T.match_buffer(x_ptr, workload.x_shape, conv.in_dtype, align=16)
        residual = T.match_buffer(residual_ptr, workload.y_shape, residual_dtype, align=16)
        weight = T.match_buffer(weight_ptr, weight_shape, "int8", align=16)
        bias = T.match_buffer(bias_ptr, bias_shape, "int32", align=16)
        scale = T.match_buffer(scale_ptr, (tiling.padded_k,), "float32", align=16)
        scalars = T.match_buffer(scalars_ptr, (8,), "float32", align=16)
        y = T.match_buffer(y_ptr, workload.y_shape, epilogue.out_dtype, align=16)
        flat(x, residual, weight, bias, scale, scalars, y)

    return with_residual if epilogue.residual_dtype else plain
