"""The products of one stage: weights become fragments of floats, mma.sync adds them up.

A step is what one fragment of weights is multiplied with: 32 bytes of rows of x along k.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.mixed.mma_sync.config import Conform

LDMATRIX = "ldmatrix.sync.aligned.m8n8.x{}.shared.b16"


@T.meta_class
class Registers:
    """A thread's registers.

    sums: of D; x: fragments of rows of x, of two steps; raw: words of weights, of two chunks;
    weights: fragments; state: for each row tile what is taken from weights of both rows, and what
    they are multiplied by.
    """

    def __init__(self, sums, x, raw, weights, state):
        self.sums = sums
        self.x = x
        self.raw = raw
        self.weights = weights
        self.state = state


@T.inline
def read_x(plan, smem, registers, base, step, thread):
    """The fragments of x of a step of a stage."""
    count = T.meta_var(plan.config.column_tiles)
    for pair in T.unroll((count + 1) // 2):
        first = T.meta_var((step % 2 * count + 2 * pair) * 2)
        loaded = T.meta_var(min(2, count) * 2)
        T.ptx[LDMATRIX.format(loaded)](
            *[registers.x[first + j] for j in range(loaded)],
            smem.ptr_to([base + plan.x_matrix(thread, pair, step)]),
        )


@T.inline
def read_weights(plan, smem, registers, base, chunk, thread):
    """The words of a chunk of a stage, of all row tiles of the warp."""
    for tile in T.unroll(plan.config.row_tiles):
        first = T.meta_var((chunk % 2 * plan.config.row_tiles + tile) * 4)
        words = T.meta_var([registers.raw[first + j] for j in range(4)])
        if plan.config.layout is Conform.OFFLINE:
            T.ptx["ld.shared.v4.b32"](
                *words, smem.ptr_to([base + plan.weight_words(thread, tile, chunk)])
            )
        elif plan.config.layout is Conform.NARROW:
            T.cuda.func_call(
                plan.narrow.name,
                registers.raw.ptr_to([first]),
                smem.ptr_to([base + plan.row_tile_at(thread, tile)]),
                2 * chunk,
                thread.lane,
                source_code=plan.narrow.source,
            )
        else:
            T.ptx[LDMATRIX.format(4)](
                *words, smem.ptr_to([base + plan.weight_matrix(thread, tile, chunk)])
            )


@T.inline
def conform_weights(plan, registers, chunk, thread):
    """The words that ldmatrix read, in the order of fragments."""
    if plan.config.layout is Conform.SHUFFLE:
        for tile in T.unroll(plan.config.row_tiles):
            T.cuda.func_call(
                plan.conform.name,
                registers.raw.ptr_to([(chunk % 2 * plan.config.row_tiles + tile) * 4]),
                thread.lane,
                source_code=plan.conform.source,
            )


@T.inline
def load_taken(plan, registers, taken, place, thread):
    """What is taken from the weights of a thread's rows, where it is the same over all k."""
    for tile in T.unroll(plan.config.row_tiles):
        for half in T.unroll(2):
            row = T.meta_var(
                place.weight_n * plan.config.block_n
                + plan.first_row(thread, tile) + thread.lane // 4 + 8 * half
            )  # fmt: skip
            registers.state[4 * tile + half] = taken[row] if plan.row_shifted else T.uint32(0)


@T.inline
def load_groups(plan, words, registers, base, step, thread):
    """What the groups that begin with a step need; words: shared memory as uint32."""
    for tile in T.unroll(plan.config.row_tiles):
        for half in T.unroll(2):
            at = T.meta_var(base // 4 + plan.group_word(thread, tile, step) + 8 * half)
            word: T.uint32 = words[at]
            registers.state[4 * tile + half] = (word >> T.uint32(16)) * T.uint32(0x10001)
            registers.state[4 * tile + 2 + half] = (word & T.uint32(0xFFFF)) * T.uint32(0x10001)


@T.inline
def widen_weights(plan, smem, registers, step):
    """The fragments of weights of a step."""
    chunk = T.meta_var(step // plan.chunk_steps)
    for tile in T.unroll(plan.config.row_tiles):
        first = T.meta_var(
            (chunk % 2 * plan.config.row_tiles + tile) * 4
            + step % plan.chunk_steps * plan.fragments.words
        )
        T.cuda.func_call(
            plan.fragment.name,
            registers.weights.ptr_to([4 * tile]),
            registers.raw.ptr_to([first]),
            registers.state.ptr_to([4 * tile]),
            smem.ptr_to([plan.table_at]),
            source_code=plan.fragment.source,
        )


def multiply_tile(plan, registers, step, tile, column):
    """Emit one 16 x 8 tile of D by a step: one instruction, or two of 8 k on sm_75."""
    config, deep = plan.config, plan.atom.k == plan.step_k
    d = (tile * config.column_tiles + column) * 4
    sums = [registers.sums[d + e] for e in range(4)]
    if plan.converts:
        weights = [registers.weights[4 * tile + e] for e in range(4)]
    else:
        first = (step % 2 * config.row_tiles + tile) * 4
        weights = [registers.raw[first + e] for e in range(4)]
    first = (step % 2 * config.column_tiles + column) * 2
    x = [registers.x[first + e] for e in range(2)]
    if deep:
        T.evaluate(plan.atom.call(sums, weights, x))
        return
    for half in range(2):
        T.evaluate(plan.atom.call(sums, weights[2 * half : 2 * half + 2], [x[half]]))


@T.inline
def multiply_stage(plan, smem, words, registers, stage, thread):
    """All steps of a stage; the next one's operands are read while one multiplies."""
    base = T.meta_var(stage * plan.stage_bytes)
    read_x(plan, smem, registers, base, 0, thread)
    read_weights(plan, smem, registers, base, 0, thread)
    for step in T.unroll(plan.fragment_steps):
        chunk = T.meta_var(step // plan.chunk_steps)
        if step % plan.chunk_steps == 0:
            conform_weights(plan, registers, chunk, thread)
        if step + 1 < plan.fragment_steps:
            read_x(plan, smem, registers, base, step + 1, thread)
            if (step + 1) % plan.chunk_steps == 0:
                read_weights(plan, smem, registers, base, chunk + 1, thread)
        if plan.starts_group(step):
            load_groups(plan, words, registers, base, step, thread)
        if plan.converts:
            widen_weights(plan, smem, registers, step)
        for tile in T.unroll(plan.config.row_tiles):
            for column in T.unroll(plan.config.column_tiles):
                multiply_tile(plan, registers, step, tile, column)
