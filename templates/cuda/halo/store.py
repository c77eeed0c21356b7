"""The store of conv2d_halo: fragments of D [pixels, channels] as rows of the output."""

from tvm.script import tirx as T

from autoq.templates.epilogue.cuda.fragments.thread_share import ThreadShare
from autoq.templates.epilogue.cuda.fragments.wgmma_tile import store_tile
from autoq.templates.epilogue.cuda.parameters.arrays import EpilogueArrays


@T.meta_class
class RowStore:
    """How a consumer of a `HaloPlan` stores its tiles: each thread its rows.

    A store of a halo kernel has the methods of this one, and says whether it takes a tensor map of
    the output (`through_map`) and whether a consumer reads or writes itself what a predecessor may
    still use (`waits`).
    """

    through_map = False
    waits = True

    def __init__(self, plan, bias, scale, scalars, residual, y, y_map, row_scale=None):
        words = T.alloc_local((plan.residual_registers,), "uint32")
        self.arrays = EpilogueArrays(bias, scale, scalars, residual, words, y)

    @T.inline
    def start(self, plan, n, first_block, thread):
        """Before the first tile, of channels n: rows need nothing."""
        pass

    @T.inline
    def start_tile(self, plan, n, first_block, thread):
        """Before the main loop of a tile."""
        pass

    @T.inline
    def store(self, plan, accumulator, smem, place, first_block, thread):
        """A consumer's part of a tile."""
        share = T.meta_var(ThreadShare(place, thread, first_block * 64))
        store_tile(plan, accumulator, self.arrays, smem, share)
        if plan.of_last_columns is not None:
            store_tile(plan.of_last_columns, accumulator, self.arrays, smem, share)

    @T.inline
    def finish(self, thread):
        """Behind the last tile: a thread's stores need no wait."""
        pass
