"""Where a thread works: among the warps or the consumers of its block, and on which tile."""

from tvm.script import tirx as T


@T.meta_class
class WarpThread:
    """A thread of a block whose warps divide a tile into rows and columns.

    index: in the block; lane: in its warp; warp_row, warp_column: the warp's place among the warps
    of the tile.
    """

    def __init__(self, index, lane, warp_row, warp_column):
        self.index = index
        self.lane = lane
        self.warp_row = warp_row
        self.warp_column = warp_column


@T.meta_class
class GridThread:
    """A thread of a grid of `grid` blocks, or of clusters, which then are what `block` counts.

    rank: of its block in the cluster; warp: of its warpgroup; lane: of the warp.
    """

    def __init__(self, block, grid, rank, warpgroup, warp, lane):
        self.block, self.grid, self.rank = block, grid, rank
        self.warpgroup, self.warp, self.lane = warpgroup, warp, lane


@T.meta_class
class ConsumerThread:
    """A thread of the warpgroups that multiply.

    consumer: its warpgroup among those that share a tile or take turns; warp: of the warpgroup;
    lane: of the warp; own: its warpgroup among all that store results, where that is another.
    """

    def __init__(self, consumer, warp, lane, own=None):
        self.consumer = consumer
        self.own = consumer if own is None else own
        self.warp = warp
        self.lane = lane

    @property
    def index(self):
        """The thread's index in its warpgroup."""
        return self.warp * 32 + self.lane

    @property
    def first(self):
        """Whether it is its warpgroup's first thread, which speaks for all of them to TMA."""
        return (self.warp == 0) & (self.lane == 0)


@T.meta_class
class TilePlace:
    """An output tile: its indices along m and n, and the rank in its cluster of the block."""

    def __init__(self, m, n, rank=0):
        self.m = m
        self.n = n
        self.rank = rank
