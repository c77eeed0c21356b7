"""Sums of a tile whose reduction is divided among the blocks of a cluster.

Each of them finishes the rows of some of its consumers and sends the others' sums to the blocks
that finish those, by st.async, straight into shared memory: a cluster's blocks run at once, so that
nothing passes through the L2 and no semaphore is left behind. The sums arrive where a consumer
stages its results afterwards, and are added in the order of the parts.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.device.memory.exchange import add_partial, send_partial


@T.meta_class
class ClusterParts:
    """How the consumers of a block exchange the sums of one tile's parts.

    part: of the reduction, which is the rank of the block in its cluster.
    """

    def __init__(self, plan, smem, barriers, part):
        self.plan, self.smem, self.barriers, self.part = plan, smem, barriers, part
        self.send = send_partial(plan.config.accumulators, "float32")
        self.add = add_partial(plan.config.accumulators, "float32")

    def arrived(self, consumer):
        """Pointer to the barrier that completes when a consumer's incoming sums are there."""
        return self.barriers.ptr_to([self.plan.config.barriers - 1 - consumer])

    def finisher(self, consumer):
        """The part whose block finishes a consumer's rows."""
        return consumer % self.plan.config.split_k

    def finishes(self, consumer):
        """Whether this block does."""
        return self.finisher(consumer) == self.part

    def place(self, thread, slot):
        """Where a thread's sums of another part lie, counted without the one that finishes."""
        config = self.plan.config
        each = config.incoming_bytes // (config.split_k - 1)
        at = self.plan.store_at(thread.consumer) + slot * each
        return self.smem.ptr_to([at + 16 * thread.index])

    @T.inline
    def initialise(self):
        """One thread of the block: announce the bytes that each consumer may receive."""
        for consumer in T.unroll(self.plan.config.row_team):
            T.ptx.mbarrier.init.shared.b64(self.arrived(consumer), T.uint32(1))
            T.ptx.mbarrier.arrive.expect_tx.shared.b64(
                self.arrived(consumer), T.uint32(self.plan.config.incoming_bytes)
            )

    @T.inline
    def settle(self, accumulator, thread):
        """A consumer's sums of its part go to the block that finishes them, or gather there."""
        if self.finishes(thread.consumer):
            T.cuda.mbarrier_wait(self.arrived(thread.consumer), 0)
            for slot in T.unroll(self.plan.config.split_k - 1):
                T.cuda.func_call(
                    self.add.name, accumulator.ptr_to([0]), self.place(thread, slot),
                    source_code=self.add.source,
                )  # fmt: skip
        else:
            to = T.meta_var(self.finisher(thread.consumer))
            slot = T.meta_var(self.part - T.cast(self.part > to, "int32"))
            T.cuda.func_call(
                self.send.name, accumulator.ptr_to([0]), self.place(thread, slot),
                self.arrived(thread.consumer), to, source_code=self.send.source,
            )  # fmt: skip
