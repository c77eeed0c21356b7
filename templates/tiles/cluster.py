"""Thread-block clusters: blocks that start together and reach each other's shared memory.

PTX ISA, barrier.cluster: no thread may leave it out, and each waits where it has arrived. Arrivals
are relaxed, since ptxas makes a flush of all memory (MEMBAR.ALL.GPU) of a release: what other
blocks touch is released before, by fence_barriers, or waited for on their own barriers.
"""

from tvm.script import tirx as T


@T.inline
def meet_cluster():
    """By every thread: all blocks of the cluster have come here."""
    T.cuda.warp_sync()
    T.ptx.barrier.cluster.arrive.relaxed()
    T.ptx.barrier.cluster.wait.acquire()
