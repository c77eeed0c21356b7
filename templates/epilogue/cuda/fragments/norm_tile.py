"""Epilogue of the wgmma pipeline where the blocks of a cluster normalise the rows they share."""

from tvm.script import tirx as T

from autoq.templates.epilogue.cuda.fragments.range_tile import rows_there
from autoq.templates.epilogue.cuda.fragments.wgmma_tile import store_in_a_form


@T.inline
def expect_sums(plan, smem):
    """One thread of the block: announce the sums of rows that each warp of consumers will get."""
    for warp in T.unroll(plan.norm_at.warps):
        barrier = T.meta_var(smem.ptr_to([plan.norm_at.barrier_at(warp)]))
        T.ptx.mbarrier.init.shared.b64(barrier, T.uint32(1))
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(barrier, T.uint32(plan.norm_at.warp_bytes))


@T.inline
def store_normalised(plan, rows, accumulator, arrays, smem, share, moments):
    """Consumer warpgroup: the bytes of its part of a tile, normalised in a form of `rows`."""
    for step in T.unroll(share.steps(plan)):
        unit = T.meta_var(share.unit(plan, step))
        channel = T.meta_var(share.channel(plan, unit.group))
        pixels = T.meta_var(share.pixels(plan, unit.block))
        T.cuda.func_call(
            rows.name,
            accumulator.ptr_to([unit.accumulator]),
            moments.ptr_to([4 * unit.block]),
            smem.ptr_to([plan.norm_at.factor_at(unit.group, share.thread.lane)]),
            smem.ptr_to([plan.norm_at.numbers_at]),
            arrays.y.ptr_to([pixels[0].index * plan.workload.k + channel]),
            arrays.y.ptr_to([pixels[1].index * plan.workload.k + channel]),
            *rows_there(plan, pixels, channel),
            source_code=rows.source,
        )


@T.inline
def normalise_tile(plan, accumulator, arrays, smem, slot, limits, share, moments):
    """Consumer warpgroup: requantise its tile, meet the cluster's other blocks, and store it.

    moments: registers of what `meet_rows` finds.
    """
    store_in_a_form(plan, accumulator, arrays, smem, slot, limits, share)
    row = T.meta_var(share.thread.consumer % plan.config.row_team)
    warp = T.meta_var(row * 4 + share.thread.warp)
    T.cuda.func_call(
        plan.meet_rows.name,
        accumulator.ptr_to([0]),
        moments.ptr_to([0]),
        smem.ptr_to([plan.norm_at.sums_at(warp)]),
        smem.ptr_to([plan.norm_at.barrier_at(warp)]),
        smem.ptr_to([plan.norm_at.numbers_at]),
        share.part,
        share.thread.lane,
        source_code=plan.meet_rows.source,
    )
    if moments[4 * plan.config.m_blocks] != T.float32(0):
        store_normalised(plan, plan.short_norm, accumulator, arrays, smem, share, moments)
    else:
        store_normalised(plan, plan.normalised_rows, accumulator, arrays, smem, share, moments)
