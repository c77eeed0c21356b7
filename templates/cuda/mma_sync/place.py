"""A thread's place in a block whose warps divide a tile into rows and columns."""

from tvm.script import tirx as T


@T.meta_class
class WarpThread:
    """A thread of such a block.

    index: in the block; lane: in its warp; warp_row, warp_column: the warp's place among the warps
    of the tile.
    """

    def __init__(self, index, lane, warp_row, warp_column):
        self.index = index
        self.lane = lane
        self.warp_row = warp_row
        self.warp_column = warp_column
