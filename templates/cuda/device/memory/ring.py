"""A ring of shared-memory stages between TMA and its consumers, kept by full and empty barriers.

Waiting more than one phase ahead on an mbarrier aliases its parity: a consumer that skips stages
must be ordered behind the one that reads them.
"""

from tvm.script import tirx as T

BARRIER_BYTES = 8
"""Shared memory of an mbarrier."""


@T.meta_class
class Ring:
    """`depth` full barriers at index `first` of a barrier buffer, then `depth` empty ones."""

    def __init__(self, barriers, first, depth):
        self.barriers = barriers
        self.first = first
        self.depth = depth

    def full(self, stage):
        """Pointer to the barrier that completes when a stage's bytes have arrived."""
        return self.barriers.ptr_to([self.first + stage])

    def empty(self, stage):
        """Pointer to the barrier that completes when every consumer has left a stage."""
        return self.barriers.ptr_to([self.first + self.depth + stage])

    @T.inline
    def initialise(self, empty_arrivals):
        """By one thread, before fence_barriers and a block barrier."""
        for i in T.unroll(self.depth):
            T.ptx.mbarrier.init.shared.b64(self.full(i), T.uint32(1))
            T.ptx.mbarrier.init.shared.b64(self.empty(i), T.uint32(empty_arrivals))

    @T.inline
    def acquire(self, at, transaction_bytes):
        """Producer: wait until a stage is empty, then announce the bytes that will arrive."""
        T.cuda.mbarrier_wait(self.empty(at.stage), at.phase ^ 1)
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(self.full(at.stage), T.uint32(transaction_bytes))

    @T.inline
    def wait(self, at):
        """Consumer: wait until a stage is full."""
        T.cuda.mbarrier_wait(self.full(at.stage), at.phase)

    @T.inline
    def release(self, stage):
        """Consumer: one arrival on a stage's empty barrier, by the calling thread."""
        T.ptx.mbarrier.arrive.shared.b64(self.empty(stage), T.uint32(1))

    @T.inline
    def release_read(self, stage, lane):
        """Consumer warp: one arrival, when its lanes have read a stage by loads, not by wgmma.

        Copies by TMA that replace it are of another proxy than loads: whatever the barrier, they
        come behind reads only where each lane that has read fences the proxies before it arrives.
        """
        T.ptx.fence.proxy.async_.shared__cta()
        T.cuda.warp_sync()
        if lane == 0:
            self.release(stage)

    @T.inline
    def wait_until_left(self, at):
        """Producer, at its end: nobody will arrive on the ring's empty barriers any more."""
        for _ in T.serial(at.depth):
            T.cuda.mbarrier_wait(self.empty(at.stage), at.phase ^ 1)
            at.advance()

    @T.inline
    def release_in(self, stage, rank):
        """The same on the barrier of another block of the cluster.

        Without `.release.cluster`, for which ptxas flushes all memory (MEMBAR.ALL.GPU): what a
        consumer read by wgmma is read when it gets here.
        """
        remote = T.local_scalar("uint32")
        T.ptx.mapa.shared__cluster.u32(
            remote, T.cuda.cvta_generic_to_shared(self.empty(stage)), T.cast(rank, "uint32")
        )
        T.ptx.mbarrier.arrive.shared__cluster.b64(remote)


@T.meta_class
class RingPosition:
    """Stage and phase of one reader or writer of a ring, in registers.

    first: of `depth` stages that pass by turns, where those of a ring belong to several.
    """

    def __init__(self, depth, first=0):
        self.depth = depth
        self.first = first
        self.stage = T.local_scalar("int32")
        self.phase = T.local_scalar("int32")

    @T.inline
    def start(self, steps):
        """Position after `steps` stages of the ring have passed."""
        self.stage = self.first + steps % self.depth
        self.phase = steps // self.depth % 2

    @T.inline
    def advance(self):
        self.stage = self.stage + 1
        if self.stage == self.first + self.depth:
            self.stage = self.first
            self.phase = self.phase ^ 1

    @T.inline
    def stride(self, steps):
        """Pass on by `steps` stages, a Python integer that divides the depth."""
        self.stage = self.stage + steps
        if self.stage >= self.first + self.depth:
            self.stage = self.stage - self.depth
            self.phase = self.phase ^ 1

    @T.inline
    def skip(self, steps):
        """Pass over stages that other consumers read."""
        self.stage = self.stage - self.first + steps
        self.phase = (self.phase + self.stage // self.depth) % 2
        self.stage = self.first + self.stage % self.depth


@T.meta_class
class RingCursor:
    """A ring as one of its readers or writers has it.

    at: the `RingPosition` of what comes next; held: that of the stage that a reader has read last
    and not yet left, where it leaves stages late.
    """

    def __init__(self, ring, at, held=None):
        self.ring = ring
        self.at = at
        self.held = held

    @property
    def stage(self):
        """The stage that is read or written next."""
        return self.at.stage

    @property
    def full(self):
        """Pointer to the barrier that completes when that stage's bytes have arrived."""
        return self.ring.full(self.at.stage)

    @T.inline
    def acquire(self, transaction_bytes):
        """Producer: `Ring.acquire` at this position."""
        self.ring.acquire(self.at, transaction_bytes)

    @T.inline
    def wait(self):
        """Consumer: `Ring.wait` at this position."""
        self.ring.wait(self.at)

    @T.inline
    def advance(self):
        self.at.advance()


@T.inline
def publish_barriers():
    """Make initialised barriers visible to the cluster and to the TMA unit, and nothing else.

    The thread that initialised them calls it. Unlike the fence of proxies in `fence_barriers`, it
    does not wait for what the thread has asked memory for (MEMBAR.ALL.CTA in machine code).
    """
    T.ptx.fence.mbarrier_init.release.cluster()


@T.inline
def fence_barriers():
    """`publish_barriers`, and whatever else the thread wrote to shared memory before."""
    publish_barriers()
    T.ptx.fence.proxy.async_.shared__cta()
