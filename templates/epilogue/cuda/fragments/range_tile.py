"""Epilogue of the wgmma pipeline where a block's only tile is quantised by the range of all."""

from tvm.script import tirx as T

from autoq.templates.epilogue.cuda.fragments.wgmma_tile import fetch_residual_rows


@T.inline
def find_values(plan, accumulator, arrays, share, numbers):
    """Values of a thread's tile in the place of their sums, and their range in numbers."""
    numbers[0] = T.float32(0)
    numbers[1] = T.float32(0)
    for step in T.unroll(share.steps(plan)):
        rows = T.meta_var(share.rows(plan, step))
        if plan.residual_late:
            fetch_residual_rows(plan, arrays, rows.unit, share)
        T.cuda.func_call(
            plan.values_of_rows.name,
            *rows.sums(plan, accumulator, arrays),
            *rows.residuals(plan, arrays),
            numbers.ptr_to([0]),
            *rows.there(plan),
            arrays.of_run[0],
            arrays.of_run[1],
            source_code=plan.values_of_rows.source,
        )


@T.inline
def quantise_tile(plan, accumulator, arrays, smem, share, written, block, numbers):
    """Consumer warpgroups of all blocks: their tiles in bytes; numbers: three registers."""
    find_values(plan, accumulator, arrays, share, numbers)
    T.cuda.func_call(
        plan.meet_all.name,
        numbers.ptr_to([0]),
        written.words.ptr_to([0]),
        smem.ptr_to([plan.range_offset]),
        block,
        share.thread.consumer * 128 + share.thread.index,
        written.scale.ptr_to([0]),
        written.zero_point.ptr_to([0]),
        source_code=plan.meet_all.source,
    )
    for step in T.unroll(share.steps(plan)):
        rows = T.meta_var(share.rows(plan, step))
        T.cuda.func_call(
            plan.bytes_of_rows.name,
            accumulator.ptr_to([rows.unit.accumulator]),
            numbers.ptr_to([0]),
            *rows.outputs(plan, arrays),
            *rows.there(plan),
            source_code=plan.bytes_of_rows.source,
        )
    T.cuda.func_call(
        plan.clear_all.name, numbers.ptr_to([0]), written.words.ptr_to([0]),
        share.thread.consumer * 128 + share.thread.index,
        source_code=plan.clear_all.source,
    )  # fmt: skip
