"""How the threads of a cluster share the images of a pool whose window is the whole image."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for
from autoq.templates.cuda.device.memory.packed_values import vector_values
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.target import Target

_LINE_VECTORS = (8, 4)
"""Most channel vectors of a block that has an image to itself: a cache line or half of one."""
_WIDE_LINE = 16
"""Most channel vectors of a cluster that shares an image: fewer clusters, fewer sums to send."""
_STEPS = 8
"""Pixels of a thread above which more blocks share an image."""
_LARGEST_CLUSTER = 8
"""Blocks of a cluster that every device with clusters can start."""


@dataclass(frozen=True)
class WholeWindowPlan:
    """How threads share images: a cluster of blocks takes `line` channel vectors of one image.

    lanes threads of a block take a pixel each, `steps` times; groups of lines make an image.
    """

    line: int
    groups: int
    lanes: int
    cluster: int
    steps: int

    @classmethod
    def of(cls, workload: Pool2d, pixels: int, threads: int, target: Target) -> WholeWindowPlan:
        """Lines of even length, short ones where they do not give every second unit a block.

        An image that is too large for one block of a short line is shared by a cluster.
        """
        vectors = workload.c // vector_values(workload.c, workload.in_dtype)
        most, short = _LINE_VECTORS
        groups = blocks_for(vectors, most)
        enough = workload.n * groups >= 2 * target.units
        largest = _LARGEST_CLUSTER if target.compute_capability >= 90 else 1
        if not enough and pixels * short > threads * _STEPS and largest > 1:
            groups = blocks_for(vectors, _WIDE_LINE)
        elif 2 * workload.n * groups < target.units:
            groups = blocks_for(vectors, short)
        line = blocks_for(vectors, groups)
        lanes = min(threads // line, blocks_for(pixels, 3 if enough else 2))
        cluster = 1
        while cluster < largest and pixels > lanes * cluster * _STEPS:
            cluster *= 2
        return cls(line, groups, lanes, cluster, blocks_for(pixels, lanes * cluster))

    @property
    def threads(self) -> int:
        return self.line * self.lanes

    @property
    def pitch(self) -> int:
        """Words from a thread's word to its next one: `line` banks further."""
        return blocks_for(self.threads, 32) * 32 + self.line

    def shared_words(self, words: int, scalars: int) -> int:
        """uint32 of shared memory when a thread has `words` and all of them `scalars`."""
        columns = self.line * words
        parts = max(self.threads // columns, 1)
        barrier = 3 if self.cluster > 1 else 0
        return words * self.pitch + (parts + self.cluster) * columns + scalars + barrier
