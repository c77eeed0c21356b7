"""Which pieces of work a block takes, one behind the other."""

from tvm.script import tirx as T


@T.meta_class
class TileWalk:
    """Whole output tiles, `grid` apart; producer and consumers each walk for themselves.

    first, pairs: of the pairs of stages of the current piece, counted for each consumer.
    """

    def __init__(self, plan, grid):
        self.plan, self.grid = plan, grid
        self.tile = T.local_scalar("int32")
        self.first, self.pairs = 0, plan.pairs

    @T.inline
    def start(self, cta):
        self.tile = cta

    @property
    def more(self):
        """Whether there is a current piece."""
        return self.tile < self.plan.works

    @T.inline
    def advance(self):
        self.tile = self.tile + self.grid
