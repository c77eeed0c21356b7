"""The multiplication of one stage: fragments by ldmatrix, products by mma.sync."""

from tvm.script import tirx as T

from autoq.templates.cuda.mma_sync.plan import LDMATRIX
from autoq.templates.cuda.mma_sync.tiling import fragment_of_pixels, fragment_of_weights


@T.meta_class
class Fragments:
    """A warp's registers of fragments: a of pixels, b of weights."""

    def __init__(self, a, b):
        self.a = a
        self.b = b


@T.inline
def read_pixels(plan, smem, fragments, base, k_tile, buffer, thread):
    """The fragments of pixels of `read_fragments`."""
    config = T.meta_var(plan.config)
    for i in T.unroll(config.WARP_ROW_TILES):
        at = T.meta_var(
            fragment_of_pixels(
                config, thread.warp_row, i, k_tile, thread.lane, plan.pixel_unit_offset
            )
        )
        first = T.meta_var((buffer * config.WARP_ROW_TILES + i) * 4)
        T.ptx[LDMATRIX](*[fragments.a[first + j] for j in range(4)], smem.ptr_to([base + at]))


@T.inline
def read_weights(plan, smem, fragments, base, k_tile, buffer, thread):
    """The fragments of weights of `read_fragments`."""
    config = T.meta_var(plan.config)
    for i in T.unroll(config.WARP_COL_TILES // 2):
        at = T.meta_var(fragment_of_weights(config, thread.warp_column, i, k_tile, thread.lane))
        first = T.meta_var((buffer * config.WARP_COL_TILES + i * 2) * 2)
        T.ptx[LDMATRIX](
            *[fragments.b[first + j] for j in range(4)],
            smem.ptr_to([base + plan.weight_start + at]),
        )


@T.inline
def read_fragments(plan, smem, fragments, base, k_tile, buffer, thread):
    """A warp's fragments of one 32-byte k-tile into one of two register buffers."""
    read_pixels(plan, smem, fragments, base, k_tile, buffer, thread)
    read_weights(plan, smem, fragments, base, k_tile, buffer, thread)


def multiply_registers(plan, accumulator, fragments, d, rows, first_b):
    """Emit one 16 x 8 tile of accumulators by one k-tile.

    rows: registers of the pixels: upper 8 rows, lower 8, then both again for the second 16 bytes.
    """
    a, b = fragments.a, fragments.b
    if plan.large_mma:
        sums = [accumulator[d + e] for e in range(4)]
        pixels, weights = [a[row] for row in rows], [b[first_b + e] for e in range(2)]
        T.evaluate(plan.atom.call(sums, pixels, weights))
        return
    if plan.atom.m == 16:
        sums = [accumulator[d + e] for e in range(4)]
        for k_half in range(2):
            pixels = [a[rows[2 * k_half]], a[rows[2 * k_half + 1]]]
            T.evaluate(plan.atom.call(sums, pixels, [b[first_b + k_half]]))
        return
    for half in range(2):
        sums = [accumulator[d + 2 * half + e] for e in range(2)]
        for k_half in range(2):
            pixels, weights = [a[rows[2 * k_half + half]]], [b[first_b + k_half]]
            T.evaluate(plan.atom.call(sums, pixels, weights))


@T.inline
def multiply_fragments(plan, accumulator, fragments, buffer):
    """All 16 x 8 tiles of a warp by the k-tile in one of two register buffers."""
    config = T.meta_var(plan.config)
    for i in T.unroll(config.WARP_ROW_TILES):
        for j in T.unroll(config.WARP_COL_TILES):
            rows = T.meta_var([(buffer * config.WARP_ROW_TILES + i) * 4 + e for e in range(4)])
            multiply_registers(
                plan, accumulator, fragments,
                (i * config.WARP_COL_TILES + j) * 4,
                rows,
                (buffer * config.WARP_COL_TILES + j) * 2,
            )  # fmt: skip


@T.inline
def multiply_stage(plan, smem, accumulator, fragments, stage, thread):
    """All k-tiles of a stage; the next one's fragments are read while one multiplies."""
    config = T.meta_var(plan.config)
    base = T.meta_var(stage * plan.tiling.stage_bytes)
    read_fragments(plan, smem, fragments, base, 0, 0, thread)
    for k in T.unroll(config.CHUNK):
        if k + 1 < config.CHUNK:
            read_fragments(plan, smem, fragments, base, k + 1, (k + 1) % 2, thread)
        multiply_fragments(plan, accumulator, fragments, k % 2)


@T.inline
def unscale(plan, accumulator):
    """Accumulators of nibbles that were unpacked as 16 times their value."""
    for i in T.unroll(plan.config.accumulators):
        scaled = T.meta_var(T.reinterpret("int32", accumulator[i]))
        accumulator[i] = T.reinterpret("uint32", scaled >> plan.accumulator_shift)
