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


@T.inline
def initialise_turns(plan, barriers):
    """One thread of the block: the barriers at which consumers wait for their turns."""
    for taker in T.unroll(plan.config.consumers if plan.config.turns else 0):
        T.ptx.mbarrier.init.shared.b64(
            barriers.ptr_to([plan.config.turn_barriers + taker]), T.uint32(4)
        )


@T.meta_class
class ConsumerTurn:
    """Whose products are next where consumers have tiles of their own but stages of one ring.

    taker: the consumer's number among them. It begins when all products of the tile before are on
    their way, so that it waits for no stage more than a phase ahead.
    """

    def __init__(self, plan, barriers, taker):
        self.plan, self.barriers, self.taker = plan, barriers, taker
        if plan.config.turns:
            self.phase = T.local_scalar("int32")

    def barrier(self, taker):
        """Pointer to the barrier at which a consumer waits."""
        return self.barriers.ptr_to([self.plan.config.turn_barriers + taker])

    @T.inline
    def start(self):
        """The first consumer's first turn comes without waiting."""
        if self.plan.config.turns:
            self.phase = T.cast(self.taker == 0, "int32")

    @T.inline
    def wait(self):
        """Until the products of the tile before are on their way."""
        if self.plan.config.turns:
            T.cuda.mbarrier_wait(self.barrier(self.taker), self.phase)
            self.phase = self.phase ^ 1

    @T.inline
    def pass_on(self, thread):
        """Each warp, when the last products of its tile are on their way."""
        if self.plan.config.turns:  # noqa: SIM102
            if thread.lane == 0:
                following = T.meta_var((self.taker + 1) % self.plan.config.turn_takers)
                T.ptx.mbarrier.arrive.shared.b64(self.barrier(following), T.uint32(1))
