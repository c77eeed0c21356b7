"""Whether a plan can be run: slots inside their spaces, kernels given what they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from autoq.errors import ArtifactError
from autoq.runtime.kernel import CpuKernel, Kernel, Parameter, Workspace
from autoq.runtime.kernel_check import array_bytes, check_kernel
from autoq.runtime.plan import ALIGNMENT, Call, Plan, Port, Slot
from autoq.runtime.plan_flow import check_flow
from autoq.templates.arrays.storage import BYTE_DTYPES


def check_plan(plan: Plan, kernels: Sequence[Kernel]) -> None:
    """Raise ArtifactError for a plan or kernels that autoq does not write.

    What passes never makes the runtime read or write outside of the arena and the constants,
    use bytes that nothing wrote, or hand a kernel other arrays than it was compiled for.
    """
    if plan.target_kind not in ("cpu", "cuda"):
        raise ArtifactError(f"target kind {plan.target_kind!r}; cpu and cuda are known")
    for number, kernel in enumerate(kernels):
        if isinstance(kernel, CpuKernel) != (plan.target_kind == "cpu"):
            raise ArtifactError(f"kernel {number} is for another target than the plan")
        check_kernel(kernel, f"kernel {number}", plan.arch)
    _check_spaces(plan)
    _check_ports(plan)
    for number, call in enumerate(plan.calls):
        _check_call(plan, call, kernels, f"call {number} ({call.layer})")
    unused = set(range(len(kernels))) - {call.kernel for call in plan.calls}
    if unused:
        raise ArtifactError(f"no call runs kernel {min(unused)}")
    check_flow(plan, kernels)


def _check_spaces(plan: Plan) -> None:
    for name, size in (("arena", plan.arena_bytes), ("constants", plan.constant_bytes)):
        if size < 0 or size % ALIGNMENT:
            raise ArtifactError(f"{name} of {size} bytes; multiples of {ALIGNMENT} are allowed")
    slots = [port.slot for port in (*plan.inputs, *plan.outputs)]
    slots += [slot for call in plan.calls for slot in call.slots]
    for slot in slots:
        _check_slot(plan, slot)
    ends = [slot.offset + slot.bytes for slot in slots if slot.space == "arena"]
    if plan.arena_bytes - max(ends, default=0) >= ALIGNMENT:
        raise ArtifactError(f"an arena of {plan.arena_bytes} bytes, of which few are used")


def _check_slot(plan: Plan, slot: Slot) -> None:
    spaces = {"arena": plan.arena_bytes, "constant": plan.constant_bytes}
    if slot.space not in spaces:
        raise ArtifactError(f"an array in {slot.space!r}; arena and constant are known")
    size = array_bytes(slot, "an array")
    inside = slot.offset >= 0 and slot.offset + size <= spaces[slot.space]
    if not inside or slot.offset % ALIGNMENT:
        raise ArtifactError(
            f"an array of {size} bytes at {slot.offset} of {spaces[slot.space]} bytes; offsets "
            f"are multiples of {ALIGNMENT}"
        )


def _check_ports(plan: Plan) -> None:
    for ports, kind in ((plan.inputs, "input"), (plan.outputs, "output")):
        for name, count in Counter(port.name for port in ports).items():
            if count > 1:
                raise ArtifactError(f"{count} {kind}s are called {name!r}")
    ports = {*plan.inputs, *plan.outputs}  # an input that is an output as well is there once
    for name, count in Counter(port.name for port in ports).items():
        if count > 1:
            raise ArtifactError(f"an input and an output of other arrays are called {name!r}")
    for port in ports:
        _check_port(port)
    ordered = sorted(ports, key=lambda port: port.slot.offset)
    for one, other in pairwise(ordered):
        if one.slot.offset + one.slot.bytes > other.slot.offset:
            raise ArtifactError(f"{one.name!r} and {other.name!r} share memory")
    if not plan.outputs:
        raise ArtifactError("no output")


def _check_port(port: Port) -> None:
    if port.slot.space != "arena":
        raise ArtifactError(f"{port.name!r} is a constant")
    if port.places < 0 or (port.places and port.slot.dtype not in ("int32", "int64")):
        raise ArtifactError(f"{port.name!r} of {port.slot.dtype} holds {port.places} places")
    if port.values and BYTE_DTYPES.get(port.values) != port.slot.dtype:
        raise ArtifactError(f"{port.name!r} holds {port.values!r} as {port.slot.dtype}")


def _check_call(plan: Plan, call: Call, kernels: Sequence[Kernel], name: str) -> None:
    if not 0 <= call.kernel < len(kernels):
        raise ArtifactError(f"{name} runs kernel {call.kernel} of {len(kernels)}")
    kernel = kernels[call.kernel]
    buffers = (*kernel.parameters, *kernel.workspaces)
    given = len(call.arguments) + len(call.outputs)
    if given != len(kernel.parameters) or len(call.slots) != len(buffers):
        raise ArtifactError(f"{name} gives {len(call.slots)} arrays to a kernel of {len(buffers)}")
    if not call.outputs:
        raise ArtifactError(f"{name} has no output")
    for slot, parameter in zip(call.slots, buffers, strict=True):
        if not _fits(slot, parameter, exact=plan.target_kind == "cpu"):
            raise ArtifactError(
                f"{name} gives {slot.dtype} {list(slot.shape)} to a kernel that takes "
                f"{parameter.dtype} {list(parameter.shape)}"
            )
    if min(call.operations, call.bytes, call.roofline_seconds) < 0:
        raise ArtifactError(f"{name} has negative operations, bytes or seconds")


def _fits(slot: Slot, parameter: Parameter | Workspace, exact: bool) -> bool:
    """CPU kernels check shapes themselves; CUDA kernels take a pointer to as many bytes."""
    if exact:
        return (slot.shape, slot.dtype) == (parameter.shape, parameter.dtype)
    return slot.bytes == array_bytes(parameter, "a parameter") and slot.dtype == parameter.dtype
