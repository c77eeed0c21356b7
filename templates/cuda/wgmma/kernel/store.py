"""The outputs of complete sums: straight to y, or by way of shared memory where y is wider."""

from tvm.script import tirx as T

from autoq.templates.epilogue.cuda.fragments.thread_share import ThreadShare
from autoq.templates.epilogue.cuda.fragments.wgmma_tile import store_in_a_form


@T.inline
def store_expanded(plan, accumulator, finish, share):
    """Consumer warpgroup: rows of y of one 64-row block, 16 of each warp."""
    outputs = T.decl_buffer(
        (plan.smem_bytes,), finish.arrays.y.dtype, data=finish.smem.data, scope="shared.dyn"
    )
    thread, place = T.meta_var(share.thread), T.meta_var(share.place)
    staged = T.meta_var(plan.staged_rows(outputs, thread, place.n))
    arrays = T.meta_var(finish.arrays.laid_out(staged))
    store_in_a_form(plan, accumulator, arrays, finish.smem, finish.slot, finish.limits, share)
    T.cuda.warp_sync()
    first = T.meta_var(place.m * plan.config.block_m + share.first_row + thread.warp * 16)
    T.cuda.func_call(
        plan.expansion.expand.name,
        finish.smem.ptr_to([plan.staged_at(thread)]),
        finish.expanded[0].data,
        finish.expanded[1].data,
        finish.arrays.y.data,
        place.n,
        first + share.block * 64,
        thread.lane,
        source_code=plan.expansion.expand.source,
    )
    T.cuda.warp_sync()


@T.inline
def look_at_expansion(plan, expanded, n, lane):
    """Consumer warpgroup: ask for what the outputs of a tile will read."""
    if plan.expansion is not None:
        T.cuda.func_call(
            plan.expansion.ahead.name, expanded[0].data, expanded[1].data, n, lane,
            source_code=plan.expansion.ahead.source,
        )  # fmt: skip


@T.inline
def store(plan, accumulator, finish, share):
    """Consumer warpgroup: the outputs of a thread's share."""
    if plan.expansion is None:
        store_in_a_form(
            plan, accumulator, finish.arrays, finish.smem, finish.slot, finish.limits, share
        )
    elif share.block is not None:
        store_expanded(plan, accumulator, finish, share)
    else:
        for block in T.unroll(plan.config.m_blocks):
            own = T.meta_var(ThreadShare(share.place, share.thread, share.first_row, 0, block))
            store_expanded(plan, accumulator, finish, own)
