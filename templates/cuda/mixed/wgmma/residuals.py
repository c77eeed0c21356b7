"""The residual of a tile on its way: TMA brings each slice to where its results are staged.

A slice lies in its staging buffer as stmatrix is about to write it, so that ldmatrix gives a thread
what is added to its own results, which take the same place. The first two slices come while the
tile's products run; each other one comes when the buffer's slice has been stored.
"""

from __future__ import annotations

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.device.memory.ring import BARRIER_BYTES
from autoq.templates.cuda.device.memory.tma import Delivery, load_tiled, tma_load

BUFFERS = 2
"""Staging buffers of a consumer, each with a barrier for the slice that arrives in it."""

_MATRICES = r"""
__device__ __forceinline__ void read_matrices_@(unsigned* to, const void* from) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(from);
  asm volatile("ldmatrix.sync.aligned.m8n8.xCOUNTTURN.shared.b16 {PLACES}, [%COUNT];"
               : OUTPUTS : "r"(at) : "memory");
}
"""


def barrier_bytes(storers: int) -> int:
    """Shared memory of the barriers of so many consumers that store."""
    return BUFFERS * storers * BARRIER_BYTES


def read_matrices(count: int, turned: bool) -> DeviceFunction:
    """read_matrices(to, from): so many 8 x 8 matrices of 16-bit values, a row's address a lane."""
    names = {
        "COUNT": str(count),
        "TURN": ".trans" if turned else "",
        "PLACES": ", ".join(f"%{i}" for i in range(count)),
        "OUTPUTS": ", ".join(f'"=r"(to[{i}])' for i in range(count)),
    }
    source = _MATRICES
    for name, value in names.items():
        source = source.replace(name, value)
    return device_function("read_matrices", source)


@T.meta_class
class Residuals:
    """How the slices of a residual come to a consumer's staging buffers.

    shared: the block's memory as bytes; barriers: those of the block; source: the map of the
    residual, whose boxes are those of y. phase: of the barrier of the buffer that comes next.
    """

    def __init__(self, plan, shared, barriers, source):
        self.plan, self.smem = plan, shared
        self.barriers, self.source = barriers, source
        if plan.workload.residual:
            self.phase = T.local_scalar("int32")

    def arrived(self, own, buffer):
        """Pointer to the barrier that completes when a slice is in a consumer's buffer."""
        at = self.plan.config.barriers + BUFFERS * self.plan.storer(own) + buffer
        return self.barriers.ptr_to([at])

    @T.inline
    def initialise(self):
        """One thread of the block."""
        if self.plan.workload.residual:
            for i in T.unroll(BUFFERS * self.plan.config.storers):
                T.ptx.mbarrier.init.shared.b64(
                    self.barriers.ptr_to([self.plan.config.barriers + i]), T.uint32(1)
                )

    @T.inline
    def start(self):
        """A consumer, before its first tile."""
        if self.plan.workload.residual:
            self.phase = 0

    @T.inline
    def wait(self, own, buffer):
        """A consumer: until the slice that comes next has arrived in its buffer."""
        T.cuda.mbarrier_wait(self.arrived(own, buffer), self.phase)
        self.phase = self.phase ^ buffer  # both buffers have had a slice of the phase

    @T.inline
    def fetch(self, of, item, buffer):
        """One thread of a consumer: ask for a slice, `item` counted through the tile's row blocks.

        buffer: the slice's, from which all is stored.
        """
        block = T.meta_var(item // of.plan.staging.slices)
        slice_ = T.meta_var(item % of.plan.staging.slices)
        full = T.meta_var(self.arrived(of.thread.own, buffer))
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(full, T.uint32(of.plan.staging.bytes))
        for box in T.unroll(of.plan.staging.boxes):
            at = T.meta_var(of.coordinates(box, block, slice_))
            offset = T.meta_var(of.plan.store_at(of.thread.own) + buffer * of.plan.staging.bytes)
            T.evaluate(
                tma_load(
                    load_tiled(of.plan.y_rank), Delivery(),
                    self.smem.ptr_to([offset + box * of.plan.staging.box_bytes]),
                    T.address_of(self.source), *at, full,
                )
            )  # fmt: skip

    @T.inline
    def begin(self, of, buffer):
        """A consumer: ask for the first slices of a tile, once its buffers have been stored.

        buffer: of the first one.
        """
        if self.plan.workload.residual:  # noqa: SIM102
            if of.thread.first:
                T.ptx.cp.async_.bulk.wait_group.read(0)
                for item in T.unroll(min(BUFFERS, of.items)):
                    self.fetch(of, item, buffer if item == 0 else 1 - buffer)

    @T.inline
    def go_on(self, of, item, buffer):
        """One thread, when it has stored a slice of a buffer: ask for the one behind the next."""
        if self.plan.workload.residual:  # noqa: SIM102
            if item + BUFFERS < of.items:
                T.ptx.cp.async_.bulk.wait_group.read(0)
                self.fetch(of, item + BUFFERS, buffer)
