"""Thread-block clusters: blocks that start together and reach each other's shared memory.

Every thread of all blocks arrives at the cluster's barrier once, and waits there, before anything
crosses to another block (PTX ISA, barrier.cluster). Nothing meets at the end: who is reached into
by others waits for that itself, for the bytes it is sent and for the stages it lends
(`Ring.wait_until_left`), as CUTLASS's producers do.
"""

from tvm.script import tirx as T


@T.inline
def arrive_at_cluster():
    """By every thread, behind `fence_barriers`, which has released all that others will touch.

    Relaxed, since ptxas makes a flush of all memory (MEMBAR.ALL.GPU) of a release.
    """
    T.ptx.barrier.cluster.arrive.relaxed()


@T.inline
def wait_for_cluster():
    """By every thread that arrived: all threads of the cluster have."""
    T.cuda.warp_sync()
    T.ptx.barrier.cluster.wait.acquire()
