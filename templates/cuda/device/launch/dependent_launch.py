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


def can_overlap(target: Target) -> bool:
    """Whether the target has programmatic dependent launch."""
    return target.kind == "cuda" and target.compute_capability >= 90
