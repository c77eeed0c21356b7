"""Copies of a stage: pixels of filter taps and weights, from global to shared memory.

With cp.async a copy that reads outside the image is told to read 0 bytes, which fills with
zeros. Without it, and where nibbles become bytes on the way, a copy waits in registers until its
stage is free. Nibbles that wait in shared memory are read by the thread that copied them.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.mma_sync.config import UNIT_BYTES
from autoq.templates.cuda.mma_sync.plan import COPY_UNIT
from autoq.templates.cuda.mma_sync.rows import image_start, input_pitches, pixel_of_row

_HIGH_NIBBLES = 0xF0F0F0F0


@T.meta_class
class PixelCopies:
    """A thread's copies of pixels.

    x: the activations; origin: where the first tap of each copy's pixel lies; taps: which lie
    inside the image; held: registers of what waits for its stage.
    """

    def __init__(self, x, origin, taps, held):
        self.x = x
        self.origin = origin
        self.taps = taps
        self.held = held


@T.meta_class
class WeightCopies:
    """A thread's copies of the weights of channel tile n; held as in `PixelCopies`."""

    def __init__(self, weight, n, held):
        self.weight = weight
        self.n = n
        self.held = held


def taps_inside(conv, first_h, first_w):
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


def reads_pixel(plan, step, index, taps):
    """Whether a copy reads the image, not what surrounds it or fills the last stage."""
    if plan.tiling.box is not None:
        found = T.cast(taps, "bool")
        if plan.ragged:
            found = T.And(found, plan.chunk_byte(step, index) < plan.tiling.group_bytes)
        return found
    row, column, _ = plan.tap(step, index)
    found = T.bool(True)
    if plan.padded:
        bits = (taps >> T.cast(row, "uint32")) & (taps >> T.cast(column + plan.conv.r, "uint32"))
        found = T.cast(bits & T.uint32(1), "bool")
    if plan.ragged:
        piece = step * plan.tiling.pieces_per_stage + plan.piece_of_copy(index)
        found = T.And(found, piece < plan.tiling.pieces)
    return found


def tap_offset(plan, step, index):
    """Bytes from a pixel's first tap, or from a pixel of the halo, to what a copy reads."""
    conv = plan.conv
    pixel_pitch, byte_pitch = input_pitches(conv)
    if plan.tiling.box is not None:
        return plan.source_byte(plan.chunk_byte(step, index)) * byte_pitch
    row, column, tile_byte = plan.tap(step, index)
    pixels = row * (conv.dilation[0] * conv.w) + column * conv.dilation[1]
    return pixels * pixel_pitch + plan.source_byte(tile_byte) * byte_pitch


@T.inline
def locate_pixels(plan, pixels, m, first_byte, thread):
    """Where the first tap of each of a thread's pixels lies, and which taps lie inside."""
    conv = T.meta_var(plan.conv)
    pitches = T.meta_var(input_pitches(conv))
    for i in T.unroll(plan.pixel_rounds):
        tile_row = T.meta_var(plan.row_of_copy(i * plan.config.threads + thread.index))
        row: T.int32 = T.min(m * plan.config.block_m + tile_row, plan.tiling.rows - 1)
        pixel = T.meta_var(pixel_of_row(conv, row))
        first_h: T.int32 = pixel[1] * conv.stride[0] - conv.padding[0]
        first_w: T.int32 = pixel[2] * conv.stride[1] - conv.padding[1]
        first_pixel = T.meta_var((first_h * conv.w + first_w) * pitches[0])
        pixels.origin[i] = image_start(conv, pixel[0]) + first_pixel + first_byte * pitches[1]
        pixels.taps[i] = taps_inside(conv, first_h, first_w)


@T.inline
def locate_halo(plan, pixels, m, first_byte, thread):
    """Where each of a thread's halo pixels lies, and whether inside the image (taps 1 or 0)."""
    conv = T.meta_var(plan.conv)
    box = T.meta_var(plan.tiling.box)
    pitches = T.meta_var(input_pitches(conv))
    first = T.meta_var(box.origin(m))
    for i in T.unroll(plan.pixel_rounds):
        slot: T.int32 = plan.row_of_copy(i * plan.config.threads + thread.index)
        pixel = T.meta_var(box.halo_pixel(slot))
        image: T.int32 = first[0] + pixel[0]
        h: T.int32 = first[1] + pixel[1]
        w: T.int32 = first[2] + pixel[2]
        in_image = T.meta_var((h * conv.w + w) * pitches[0])
        pixels.origin[i] = image_start(conv, image) + in_image + first_byte * pitches[1]
        in_rows = T.meta_var(T.And(h >= 0, h < conv.h))
        in_columns = T.meta_var(T.And(w >= 0, w < conv.w))
        real = T.meta_var(T.And(T.And(in_rows, in_columns), image < conv.n))
        pixels.taps[i] = T.if_then_else(real, T.uint32(1), T.uint32(0))


@T.inline
def fetch_piece(plan, smem, pixels, step, stage, i, index):
    """One copy of the pixel tile."""
    real: T.let = reads_pixel(plan, step, index, pixels.taps[i])
    at = T.meta_var(pixels.origin[i] + tap_offset(plan, step, index))
    source: T.int32 = T.if_then_else(real, at, 0)
    if plan.asynchronous:
        T.ptx[plan.copy_piece](
            smem.ptr_to([plan.pixel_target(stage, index)]),
            pixels.x.ptr_to([source]),
            plan.tiling.piece_read,
            T.if_then_else(real, T.uint32(plan.tiling.piece_read), T.uint32(0)),
        )
    else:
        words = T.meta_var(plan.piece_words)
        registers = T.meta_var([pixels.held[i * words + j] for j in range(words)])
        T.ptx[plan.load(words)](*registers, pixels.x.ptr_to([source]))
        if T.Not(real):
            for j in T.unroll(words):
                pixels.held[i * words + j] = T.uint32(0)


@T.inline
def fetch_unit(plan, smem, weights, step, stage, i, index):
    """One copy of the weight tile, which lies packed in the order of the copies."""
    source = T.meta_var(
        weights.weight.ptr_to(
            [weights.n, step, index // plan.units_read, index % plan.units_read * UNIT_BYTES]
        )
    )
    if plan.asynchronous:
        T.ptx[COPY_UNIT](smem.ptr_to([plan.weight_target(stage, index)]), source, UNIT_BYTES)
    else:
        T.ptx[plan.load(4)](*[weights.held[i * 4 + j] for j in range(4)], source)


@T.inline
def fetch(plan, smem, pixels, weights, step, stage, thread):
    """All copies of a thread for one step of the reduction."""
    for i in T.unroll(plan.pixel_rounds):
        index = T.meta_var(i * plan.config.threads + thread.index)
        if index < plan.pixel_copies:
            fetch_piece(plan, smem, pixels, step, stage, i, index)
    for i in T.unroll(plan.weight_rounds):
        index = T.meta_var(i * plan.config.threads + thread.index)
        if index < plan.weight_copies:
            fetch_unit(plan, smem, weights, step, stage, i, index)


def low_nibbles(word):
    """Bytes of 16 times the low nibble of each byte: signed or not, without extending a sign."""
    return (word << T.uint32(4)) & T.uint32(_HIGH_NIBBLES)


def high_nibbles(word):
    """Bytes of 16 times the high nibble of each byte."""
    return word & T.uint32(_HIGH_NIBBLES)


@T.inline
def keep_words(plan, smem, held, first, words, at):
    """Registers as they were read to shared memory."""
    T.ptx[plan.keep(words)](smem.ptr_to([at]), *[held[first + j] for j in range(words)])


@T.inline
def keep_unpacked(plan, smem, held, first, words, at, at_next):
    """Registers of nibbles to shared memory as bytes: all low ones, then all high ones.

    The bytes of four registers fill two units, the second of which lies at `at_next`.
    """
    low = T.meta_var([low_nibbles(held[first + j]) for j in range(words)])
    high = T.meta_var([high_nibbles(held[first + j]) for j in range(words)])
    if words == 4:
        T.ptx[plan.keep(4)](smem.ptr_to([at]), *low)
        T.ptx[plan.keep(4)](smem.ptr_to([at_next]), *high)
    else:
        T.ptx[plan.keep(2 * words)](smem.ptr_to([at]), *low, *high)


@T.inline
def take(plan, smem, pixels, weights, stage, thread):
    """A thread's own nibbles of a stage, which wait in shared memory, to registers."""
    words = T.meta_var(plan.piece_words)
    if plan.tiling.unpacks_pixels:
        for i in T.unroll(plan.pixel_rounds):
            index = T.meta_var(i * plan.config.threads + thread.index)
            if index < plan.pixel_copies:
                T.ptx[plan.take(words)](
                    *[pixels.held[i * words + j] for j in range(words)],
                    smem.ptr_to([plan.packed_pixel(stage, index)]),
                )
    if plan.tiling.unpacks_weights:
        for i in T.unroll(plan.weight_rounds):
            index = T.meta_var(i * plan.config.threads + thread.index)
            if index < plan.weight_copies:
                T.ptx[plan.take(4)](
                    *[weights.held[i * 4 + j] for j in range(4)],
                    smem.ptr_to([plan.packed_weight(stage, index)]),
                )


@T.inline
def keep(plan, smem, pixels, weights, stage, thread):
    """What registers hold of a stage to its tiles, where no cp.async took it there."""
    base = T.meta_var(stage * plan.tiling.stage_bytes)
    words = T.meta_var(plan.piece_words)
    for i in T.unroll(plan.pixel_rounds):
        index = T.meta_var(i * plan.config.threads + thread.index)
        if index < plan.pixel_copies:
            at = T.meta_var(base + plan.pixel_offset(index))
            if plan.tiling.unpacks_pixels:
                at_next = T.meta_var(base + plan.pixel_offset(index, 1))
                keep_unpacked(plan, smem, pixels.held, i * words, words, at, at_next)
            elif not plan.asynchronous:
                keep_words(plan, smem, pixels.held, i * words, words, at)
    for i in T.unroll(plan.weight_rounds):
        index = T.meta_var(i * plan.config.threads + thread.index)
        if index < plan.weight_copies:
            at = T.meta_var(base + plan.weight_offset(index))
            if plan.tiling.unpacks_weights:
                at_next = T.meta_var(base + plan.weight_offset(index, 1))
                keep_unpacked(plan, smem, weights.held, i * 4, 4, at, at_next)
            elif not plan.asynchronous:
                keep_words(plan, smem, weights.held, i * 4, 4, at)
