"""The store of products with operands swapped whose outputs are no plain bytes: from registers."""

from tvm.script import tirx as T

from autoq.templates.cuda.halo.swapped.channel_states import ChannelFunction, ChannelStates
from autoq.templates.epilogue.cuda.fragments.column_pairs import STATE_WORDS
from autoq.templates.epilogue.cuda.parameters.arrays import EpilogueArrays
from autoq.templates.epilogue.cuda.parameters.lookups import table_argument


@T.meta_class
class DirectStore(ChannelStates):
    """How a consumer of a `DirectGemmPlan` stores its tiles: each thread two channels of a row.

    state: of a thread's two channels of each block.
    """

    through_map = False
    waits = True

    def __init__(self, plan, bias, scale, scalars, residual, y, y_map, row_scale=None):
        self.arrays = EpilogueArrays(bias, scale, scalars, residual, None, y, row_scale)
        self.state = T.alloc_local((STATE_WORDS * plan.blocks,), "uint32")
        channels = ChannelFunction(plan.functions.prepare, 0, STATE_WORDS)
        self.describe_channels(channels, scale, bias)

    @T.inline
    def start(self, plan, n, first_block, thread):
        """Before the first tile, of channels n."""
        if plan.resident:
            self.prepare_channels(plan, n, first_block, thread)

    @T.inline
    def store(self, plan, accumulator, smem, place, first_block, thread):
        """A consumer's part of a tile."""
        for index in T.unroll(plan.blocks):
            first = T.meta_var(plan.first_channel(place.n, first_block + index))
            channel = T.meta_var(first + plan.row(thread.warp, thread.lane))
            for group in T.unroll(plan.column_groups):
                at = T.meta_var(index * plan.block_accumulators + group * 4)
                rows = T.meta_var(plan.rows_of(place.m, group, thread.lane))
                inside = T.meta_var([plan.stores(row, channel) for row in rows])
                places = T.meta_var([row * plan.workload.k + channel for row in rows])
                T.cuda.func_call(
                    plan.functions.store.name,
                    *[accumulator[at + i] for i in range(4)],
                    self.state.ptr_to([STATE_WORDS * index]),
                    self.arrays.scalars.ptr_to([0]),
                    *[self.arrays.residual.ptr_to([spot]) for spot in places],
                    *[self.arrays.y.ptr_to([spot]) for spot in places],
                    *[T.cast(exists, "int32") for exists in inside],
                    *self.arrays.row_scales(plan.workload.epilogue, rows, inside),
                    *table_argument(plan, smem),
                    source_code=plan.functions.store.source,
                )

    @T.inline
    def finish(self, thread):
        """Behind the last tile: a thread's stores need no wait."""
        pass
