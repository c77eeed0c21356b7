"""Consumers that take turns: each has a tile of its own, all have the stages of one ring.

While one stores its tile the next one multiplies. The producer fills stages in the order of tiles.
"""

from tvm.script import tirx as T


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
