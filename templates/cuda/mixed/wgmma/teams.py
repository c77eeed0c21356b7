"""Teams of a block's consumers: one multiplies a tile while another stores its own (ping-pong).

Each team has stages, and a producer warp that fills them, of its own, so that neither waits for the
other. Their first tiles start an eighth of a tile apart, which keeps their epilogues apart: an
epilogue takes as long as the products of some steps.
"""

from tvm.script import tirx as T

# Of a tile's stages, between the starts of two teams. A team alone does not keep the tensor cores
# busy, so that a longer way apart costs more at a kernel's start and end.
_APART = 8


@T.meta_class
class TeamStart:
    """When the producer of a team of a block begins: at once, or behind the team before it."""

    def __init__(self, plan, barriers, team, block):
        self.plan, self.barriers = plan, barriers
        self.team, self.block = team, block
        self.stages_apart = plan.k_stages // _APART

    def behind(self, team):
        """Pointer to the barrier that completes when a team is so far that the next may begin."""
        return self.barriers.ptr_to([2 * self.plan.config.all_stages + team])

    @T.inline
    def initialise(self):
        """One thread of the block."""
        for team in T.unroll(self.plan.config.team_barriers):
            T.ptx.mbarrier.init.shared.b64(self.behind(team), T.uint32(1))

    @T.inline
    def wait(self, walk):
        """Producer thread: until the team before is a share of its first tile ahead."""
        if self.plan.config.teams > 1:  # noqa: SIM102
            if (self.team > 0) & walk.more:
                T.cuda.mbarrier_wait(self.behind(self.team - 1), 0)

    @T.inline
    def pass_on(self, walk, turn):
        """Producer thread, before it fills stage `turn` of its current tile."""
        if self.plan.config.teams > 1:
            first = T.meta_var(walk.tile == self.block + self.team * walk.grid)
            another = T.meta_var(self.team < self.plan.config.teams - 1)
            if first & another & (turn == self.stages_apart):
                T.ptx.mbarrier.arrive.shared.b64(self.behind(self.team), T.uint32(1))
