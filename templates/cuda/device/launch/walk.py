"""Which pieces of work a block takes, one behind the other: tiles, or parts of their reductions.

A piece is a tile and some portions of its reduction, which are stages or pairs of them. Producer
and consumers walk for themselves. Where a tile's reduction is divided among blocks, the one with
its last part finishes it; it waits for the others' sums, all of blocks with lower numbers, which
start earlier and wait for none with higher ones: however few blocks run at once, none waits for
ever.
"""

from tvm.script import tirx as T


def shared_tiles(works: int, grid: int) -> int:
    """Tiles of which `StreamWalk` shares out the reductions: less than two waves of them."""
    waves = works // grid
    return works - max(waves - 1, 0) * grid


@T.meta_class
class TileWalk:
    """Whole output tiles, `grid` apart, which the teams of a block take in turn.

    team: of so many `teams`; tile: of the current piece; first, portions: of its reduction.
    """

    def __init__(self, plan, grid, team, teams):
        self.plan, self.grid, self.team, self.teams = plan, grid, team, teams
        self.tile = T.local_scalar("int32")
        self.first, self.portions = 0, plan.portions

    @T.inline
    def start(self, block):
        self.tile = block + self.team * self.grid

    @property
    def more(self):
        """Whether there is a current piece."""
        return self.tile < self.plan.works

    @property
    def last(self):
        """Whether the current piece is the last one."""
        return self.tile + self.grid * self.teams >= self.plan.works

    @T.inline
    def advance(self):
        self.tile = self.tile + self.grid * self.teams


@T.meta_class
class SplitWalk:
    """One of `split_k` equal parts of one tile for each block.

    givers: parts of the tile before this one, of blocks `stride` apart, from `first_giver` on.
    """

    def __init__(self, plan, grid):
        self.plan, self.stride = plan, plan.works
        self.tile, self.first, self.portions = (T.local_scalar("int32") for _ in range(3))
        self.givers, self.left = T.local_scalar("int32"), T.local_scalar("int32")

    @property
    def ends_tile(self):
        """Whether the piece has the tile's last portion, so that its block stores the tile."""
        return self.first + self.portions == self.plan.portions

    @property
    def first_giver(self):
        return self.tile

    @T.inline
    def start(self, block):
        parts = T.meta_var(self.plan.config.split_k)
        self.tile = block % self.plan.works
        self.givers = block // self.plan.works
        self.first = self.givers * self.plan.portions // parts
        self.portions = (self.givers + 1) * self.plan.portions // parts - self.first
        self.left = 1

    @property
    def more(self):
        """Whether there is a current piece."""
        return self.left > 0

    @T.inline
    def advance(self):
        self.left = 0


@T.meta_class
class StreamWalk:
    """An equal share of the portions of the first tiles, then whole tiles, `grid` apart.

    A share is walked from its end, so that a block gives away the beginning of a tile before it
    waits for others' parts of another. The members are those of `SplitWalk`.
    """

    def __init__(self, plan, grid):
        self.plan, self.grid, self.stride = plan, grid, 1
        self.tile, self.first, self.portions = (T.local_scalar("int32") for _ in range(3))
        self.begin, self.at, self.whole = (T.local_scalar("int32") for _ in range(3))
        self.block = T.local_scalar("int32")
        self.shared = shared_tiles(plan.works, grid)
        self.share, self.longer = divmod(self.shared * plan.portions, grid)

    def owner(self, portion):
        """The block whose share holds a portion of the shared tiles."""
        of_longer = self.longer * (self.share + 1)
        return T.if_then_else(
            portion < of_longer,
            portion // (self.share + 1),
            self.longer + (portion - of_longer) // self.share,
        )

    @property
    def ends_tile(self):
        """Whether the piece has the tile's last portion, so that its block stores the tile."""
        return self.first + self.portions == self.plan.portions

    @property
    def first_giver(self):
        return self.owner(self.tile * self.plan.portions)

    @property
    def givers(self):
        return self.block - self.first_giver

    @T.inline
    def start(self, block):
        self.block = block
        self.begin = block * self.share + T.min(block, self.longer)
        self.at = self.begin + self.share + T.cast(block < self.longer, "int32")
        self.whole = self.shared + block
        self.settle()

    @property
    def more(self):
        """Whether there is a current piece."""
        return (self.at > self.begin) | (self.tile < self.plan.works)

    @T.inline
    def advance(self):
        if self.at > self.begin:
            self.at = self.at - self.portions
        else:
            self.whole = self.whole + self.grid
        self.settle()

    @T.inline
    def settle(self):
        """The current piece, of what is left."""
        if self.at > self.begin:
            self.tile = (self.at - 1) // self.plan.portions
            self.first = T.max(self.begin - self.tile * self.plan.portions, 0)
            self.portions = self.at - self.tile * self.plan.portions - self.first
        else:
            self.tile = self.whole
            self.first = 0
            self.portions = self.plan.portions


def walk_of(plan, grid, team=0, teams=1):
    """The walk of a plan's configuration, by one of the teams of a block."""
    if plan.config.stream_k:
        return StreamWalk(plan, grid)
    return SplitWalk(plan, grid) if plan.config.split_k > 1 else TileWalk(plan, grid, team, teams)
