"""Sums of parts of a tile's reduction, which blocks give to the one that finishes the tile.

Each block gives at most one part of a tile away, so that parts lie in its own place of a workspace
in the order of its registers, and a semaphore for each of its consumers says that they are there.
Parts are added in a fixed order: results do not depend on which block is first. Whoever takes a
part up sets its semaphore back to zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.program import Initially, Workspace

_SOURCE = r"""
__device__ __forceinline__ void NAME_@(VALUE* sums, void* part, int thread) {
  VALUE4* four = reinterpret_cast<VALUE4*>(part) + thread;
  #pragma unroll
  for (int i = 0; i < COUNT / 4; ++i) { BODY }
}
"""
_GIVE = """__stcg(four + i * 128,
                make_VALUE4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]));"""
_TAKE = """const VALUE4 other = __ldcg(four + i * 128);
    sums[4 * i] += other.x, sums[4 * i + 1] += other.y;
    sums[4 * i + 2] += other.z, sums[4 * i + 3] += other.w;"""
_VALUES = {"float32": "float", "uint32": "uint"}

ANNOUNCE = device_function("announce", r"""
__device__ __forceinline__ void announce_@(void* semaphore) {
  asm volatile("fence.acq_rel.gpu; st.release.gpu.global.u32 [%0], 1;"
               :: "l"(__cvta_generic_to_global(semaphore)) : "memory");
}
""")  # fmt: skip
"""announce(semaphore): what all threads of the warpgroup wrote before a barrier is there."""

AWAIT = device_function("await", r"""
__device__ __forceinline__ void await_@(void* semaphore) {
  unsigned there = 0;
  while (there == 0)
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(there) : "l"(__cvta_generic_to_global(semaphore)) : "memory");
  *reinterpret_cast<unsigned*>(semaphore) = 0;
}
""")  # fmt: skip
"""await(semaphore): return when it was announced, and set it back."""


def _moved(name: str, body: str, count: int, dtype: str) -> DeviceFunction:
    source = _SOURCE.replace("BODY", body).replace("NAME", name).replace("COUNT", str(count))
    return device_function(name, source.replace("VALUE", _VALUES[dtype]))


@dataclass(frozen=True)
class TileParts:
    """Sums of a tile, as those who compute parts of its reduction hold them.

    cluster: blocks of a cluster, which compute a tile each at a time; consumers: warpgroups of a
    block that divide the rows of its tile; count: sums of a thread, a multiple of 4; dtype:
    float32, or uint32 for integers.
    """

    cluster: int
    consumers: int
    count: int
    dtype: str

    def workspaces(self, grid: int) -> tuple[Workspace, ...]:
        """Semaphores and parts of a grid of so many clusters of blocks."""
        consumers = grid * self.cluster * self.consumers
        arrived = TensorSpec("arrived", (consumers,), "int32")
        parts = TensorSpec("parts", (consumers, 128 * self.count), self.dtype)
        return Workspace(arrived, Initially.STAYS_ZERO), Workspace(parts)

    def place(self, block: Any, rank: Any, consumer: Any) -> Any:
        """Where the sums of a consumer lie."""
        return (block * self.cluster + rank) * self.consumers + consumer

    @property
    def give(self) -> DeviceFunction:
        """give(sums, part, thread): a thread's sums to a part of a workspace."""
        return _moved("give", _GIVE, self.count, self.dtype)

    @property
    def take(self) -> DeviceFunction:
        """take(sums, part, thread): add those of a part to a thread's own."""
        return _moved("take", _TAKE, self.count, self.dtype)


@T.meta_class
class PartSums:
    """The workspaces, as a consumer of a block of a cluster reaches them.

    consumer: its index among those that divide the rows of a tile.
    """

    def __init__(self, of, workspaces, block, rank, consumer, thread):
        self.of = of
        self.arrived, self.parts = workspaces
        self.block, self.rank, self.consumer, self.thread = block, rank, consumer, thread
        self.give, self.take = of.give, of.take

    def place(self, block):
        """Whose sums those of the same rows of the tile are, in another block."""
        return self.of.place(block, self.rank, self.consumer)

    @T.inline
    def settle(self, accumulator, piece):
        """Give the sums of a piece away, or take up those of all the tile's other parts."""
        if piece.ends_tile:
            if piece.first > 0:
                for i in T.serial(piece.givers):
                    giver = T.meta_var(self.place(piece.first_giver + i * piece.stride))
                    if self.thread.first:
                        T.cuda.func_call(
                            AWAIT.name, self.arrived.ptr_to([giver]), source_code=AWAIT.source
                        )
                    T.cuda.warpgroup_sync(2 + self.thread.own)
                    self.move(self.take, accumulator, giver)
        else:
            self.move(self.give, accumulator, self.place(self.block))
            T.cuda.warpgroup_sync(2 + self.thread.own)
            if self.thread.first:
                own = T.meta_var(self.arrived.ptr_to([self.place(self.block)]))
                T.cuda.func_call(ANNOUNCE.name, own, source_code=ANNOUNCE.source)

    @T.inline
    def move(self, function, accumulator, place):
        """Between accumulators and a place of the workspace."""
        T.cuda.func_call(
            function.name, accumulator.ptr_to([0]), self.parts.ptr_to([place, 0]),
            self.thread.index, source_code=function.source,
        )  # fmt: skip
