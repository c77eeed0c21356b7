"""Programmatic dependent launch: a kernel starts while the kernel before it still runs.

CUDA programming guide, "Programmatic Dependent Launch and Synchronization"; compute capability 9.0
and later. Barriers, tensor maps and weights are ready by the time the last kernel's output is.

A kernel may read or write nothing but its constants before `wait_for_predecessors`, and every one
of its blocks waits. Then all kernels before the last one are complete as well, since the last one
waited for them: neither their outputs nor buffers that they read need any other barrier. Launched
in the ordinary way, as a measurement does, neither instruction has an effect.
"""

from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.target import Target


@T.inline
def wait_for_predecessors():
    """Return when all kernels before this one are complete; by every thread that reads for itself.

    A thread that gets data or the right to write from such a thread by a barrier need not wait.
    """
    T.ptx.griddepcontrol.wait()


@T.inline
def start_successor():
    """Let the next kernel's blocks take free multiprocessors, once every block has said so.

    After waiting, so that no more than two kernels run at once.
    """
    T.ptx.griddepcontrol.launch_dependents()


def overlapping(function: PrimFunc) -> PrimFunc:
    """The kernel marked for launches that overlap the kernel before."""
    return _marked(function, "tirx.use_programtic_dependent_launch")


def cooperating(function: PrimFunc) -> PrimFunc:
    """The kernel marked as one whose blocks wait for one another, so that all of them run."""
    return _marked(function, "tirx.use_cooperative_launch")


def _marked(function: PrimFunc, mark: str) -> PrimFunc:
    name = "tirx.kernel_launch_params"
    known = function.attrs[name] if function.attrs and name in function.attrs else []
    return function.with_attr(name, [*(str(each) for each in known), mark])


_SCATTERED_SECONDS = 20e-6
"""Of products alone, from which on neighbours have to be near each other.

On an H200 a product of bytes of 2,048 cubed, 8.7 us of products, gains 0.3 us by overlapping; one
of 3,456 x 4,096 x 2,048, 29 us, loses as much, and one of 4,096 cubed 3 to 8 us.
"""


def gains_by_overlapping(operations: int, rate: float) -> bool:
    """Whether a product, whose blocks go through tiles, should overlap the kernel before.

    Launched behind it, blocks that follow each other lie in one part of the chip, which asks the L2
    once for what several of them read at a time. Blocks that start as multiprocessors become free
    lie anywhere.
    """
    return operations < _SCATTERED_SECONDS * rate


def can_overlap(target: Target) -> bool:
    """Whether the target has programmatic dependent launch."""
    return target.kind == "cuda" and target.compute_capability >= 90
