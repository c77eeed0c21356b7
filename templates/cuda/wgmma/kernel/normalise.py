"""The outputs of tiles whose cluster holds whole rows, which it normalises."""

from tvm.script import tirx as T

from autoq.templates.epilogue.cuda.fragments.wgmma_tile import store_in_a_form


@T.inline
def expect_sums(plan, barriers):
    """One thread of the block: announce what each consumer warp will receive."""
    for warp in T.unroll(plan.normalisation.barriers):
        barrier = T.meta_var(barriers.ptr_to([plan.config.barriers + warp]))
        T.ptx.mbarrier.init.shared.b64(barrier, T.uint32(1))
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(
            barrier, T.uint32(plan.normalisation.inbox_bytes)
        )


@T.inline
def copy_column_numbers(plan, smem, numbers, rank, thread):
    """Consumers: the numbers of their tile's columns, which the rank of the block says."""
    T.cuda.func_call(
        plan.normalisation.copy.name,
        smem.ptr_to([plan.column_numbers_at]),
        numbers.ptr_to([rank * plan.normalisation.numbers]),
        thread.consumer * 128 + thread.index,
        source_code=plan.normalisation.copy.source,
    )


@T.inline
def normalise_tile(plan, accumulator, finish, share, barriers, rank):
    """Consumer warpgroup: requantise, exchange sums of rows, normalise and store."""
    thread = T.meta_var(share.thread)
    held = T.alloc_local((plan.normalisation.rows * plan.normalisation.words,), "uint32")
    as_bytes = T.decl_buffer(
        (4 * plan.normalisation.rows * plan.normalisation.words,), "uint8", data=held.data,
        scope="local",
    )  # fmt: skip
    arrays = T.meta_var(finish.arrays.held_in(as_bytes, plan.normalisation.words))
    store_in_a_form(plan, accumulator, arrays, finish.smem, finish.slot, finish.limits, share)
    warp = T.meta_var(thread.consumer * 4 + thread.warp)
    inbox = T.meta_var(finish.smem.ptr_to([plan.inbox_at(warp)]))
    barrier = T.meta_var(barriers.ptr_to([plan.config.barriers + warp]))
    T.cuda.func_call(
        plan.normalisation.send.name, held.ptr_to([0]), inbox, barrier, rank, thread.lane,
        source_code=plan.normalisation.send.source,
    )  # fmt: skip
    T.cuda.mbarrier_wait(barrier, 0)
    pixel = T.meta_var(share.pixel(plan, 0, 0))
    T.cuda.func_call(
        plan.normalisation.finish.name, held.ptr_to([0]), inbox,
        finish.smem.ptr_to([plan.column_numbers_at]),
        finish.arrays.y.ptr_to([pixel.index * plan.workload.k + share.channel(plan, 0)]),
        thread.lane,
        source_code=plan.normalisation.finish.source,
    )  # fmt: skip
