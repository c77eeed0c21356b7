"""CUDA source of the meeting of a cluster's threads; of statements it is `cluster.py`."""

MEET_CLUSTER = r"""if constexpr (CLUSTER == 1) {
    __syncthreads();
  } else {
    asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
  }"""
"""Of a namespace with the constant CLUSTER. It stands in the function that meets, since ptxas gave
other registers to a kernel that called one for it."""
