"""Thread-block clusters: blocks that start together and reach each other's shared memory.

PTX ISA, "Thread Block Clusters", mapa and barrier.cluster.
"""

from tvm.script import tirx as T

from autoq.templates.tiles.requantise import device_function

_ARRIVE = device_function(
    "arrive_in_cluster",
    r"""
__device__ __forceinline__ void arrive_in_cluster_@(const void* barrier, int rank) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(rank));
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
               :: "r"(there) : "memory");
}
""",
)


@T.inline
def arrive_in_cluster(pointer, rank):
    """One arrival of the calling thread on the barrier at the same place of another block."""
    T.cuda.func_call(_ARRIVE.name, pointer, rank, source_code=_ARRIVE.source)


@T.inline
def synchronise_cluster():
    """By every thread: all blocks of the cluster have come here, and see what each has written."""
    T.ptx.barrier.cluster.arrive.release()
    T.ptx.barrier.cluster.wait.acquire()
