"""Split reductions of the wgmma pipeline: partial sums go to who finishes them, all slices at once.

Partial sums stay int32, so their order does not matter and the result is exact.
"""

from tvm.script import tirx as T

EXCHANGE_BARRIER = 2
"""Named barrier of consumers that exchange partial sums inside one block."""


@T.inline
def expect_partials(plan, barriers):
    """One thread of the block: announce the partial sums that each consumer will receive."""
    for consumer in T.unroll(plan.config.consumers):
        barrier = T.meta_var(barriers.ptr_to([plan.memory.consumer_barriers + consumer]))
        T.ptx.mbarrier.init.shared.b64(barrier, T.uint32(1))
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(
            barrier, T.uint32(plan.memory.exchange_transaction)
        )


@T.inline
def clear_tile(plan, accumulator):
    """A part that does not begin with the bias begins with zero."""
    for i in T.unroll(plan.config.accumulators):
        accumulator[i] = T.uint32(0)


@T.inline
def send_slices(plan, accumulator, smem, barriers, part, row, byte):
    """Send what others finish; `byte` is where a thread's begin in a place."""
    for other in T.unroll(plan.config.parts):
        if part != other:
            receiver = T.meta_var(other % plan.config.team.k_groups * plan.config.row_team + row)
            words = T.meta_var(accumulator.ptr_to([other * plan.config.slice_words]))
            place = T.meta_var(smem.ptr_to([plan.memory.partial_at(receiver, other, part) + byte]))
            if plan.config.split_k > 1:
                T.cuda.func_call(
                    plan.send_partial.name,
                    words,
                    place,
                    barriers.ptr_to([plan.memory.consumer_barriers + receiver]),
                    other // plan.config.team.k_groups,
                    source_code=plan.send_partial.source,
                )
            else:
                T.cuda.func_call(
                    plan.store_partial.name, words, place, source_code=plan.store_partial.source
                )


@T.inline
def exchange(plan, accumulator, smem, barriers, rank, thread):
    """Leave the finished sums of a consumer's own slice in its first accumulators."""
    part = T.meta_var(plan.part(rank, thread.consumer))
    byte = T.meta_var(thread.index * 16)
    row = T.meta_var(thread.consumer % plan.config.row_team)
    send_slices(plan, accumulator, smem, barriers, part, row, byte)
    for before in T.unroll(plan.config.parts - 1):
        if part == before + 1:
            T.cuda.func_call(
                plan.keep_slice.name,
                accumulator.ptr_to([0]),
                accumulator.ptr_to([(before + 1) * plan.config.slice_words]),
                source_code=plan.keep_slice.source,
            )
    if plan.config.split_k > 1:
        T.cuda.mbarrier_wait(barriers.ptr_to([plan.memory.consumer_barriers + thread.consumer]), 0)
    else:
        T.ptx.bar.sync(T.uint32(EXCHANGE_BARRIER), T.uint32(128 * plan.config.consumers))
    for arrived in T.unroll(plan.config.parts - 1):
        T.cuda.func_call(
            plan.add_partial.name,
            accumulator.ptr_to([0]),
            smem.ptr_to([plan.memory.arrived_at(thread.consumer, arrived) + byte]),
            source_code=plan.add_partial.source,
        )
