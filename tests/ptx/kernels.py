"""Kernels of templates on the emulator: their outputs, and whether these are right."""

from __future__ import annotations

import functools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc

from autoq.kernel.host_launches import host_launches
from autoq.kernel.lowering import cuda_source, lower
from autoq.measure.arrays import random_case, stored_activations, stored_outputs
from autoq.measure.check import complaints
from autoq.runtime.kernel import Launch
from autoq.templates.arrays.element import numpy_dtype
from autoq.templates.base import Template
from autoq.templates.program import Initially, Program
from autoq.templates.target import Target
from autoq.templates.workload import Workload
from ptx.emulate import (
    EmulationFault,
    Memory,
    Mode,
    launch,
    ptx_and_headers,
    ptxas_complaint,
)

POISON = 0x55
EAGER, LATE = Mode(), Mode(late=True)
MODES = {"eager": EAGER, "late": LATE, "proxies": Mode(proxies=True)}
FENCED = ("proxies", "late")
"""Modes for kernels whose threads fence whatever they have used and copies by TMA replace."""


def run(
    function: PrimFunc,
    target: Target,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[tuple[tuple[int, ...], str]],
    mode: Mode = EAGER,
    awaited: int = 0,
) -> list[np.ndarray]:
    """What a function writes to its last parameters, whose shapes and dtypes are given.

    awaited: how many of the first inputs may not be read before it waits for earlier launches.
    Raises EmulationFault and UnknownInstruction.
    """
    memories = [Memory(array, False, at >= awaited) for at, array in enumerate(inputs)]
    memories += [_poisoned(*spec) for spec in outputs]
    _run_function(function, target, memories, mode)
    written = memories[len(inputs) :]
    return [_array(memory, *spec) for memory, spec in zip(written, outputs, strict=True)]


def run_program(
    program: Program,
    target: Target,
    arrays: Mapping[str, np.ndarray],
    outputs: Mapping[str, tuple[tuple[int, ...], str]],
    mode: Mode = EAGER,
    constants: Container[str] = (),
) -> dict[str, np.ndarray]:
    """The outputs of a program by name, from its inputs and constants by name.

    Those that constants names may be read before a launch has waited for those before it. Raises
    EmulationFault, also for a workspace that stays zero and does not.
    """
    memories = {name: Memory(array, False) for name, array in arrays.items()}
    memories |= {name: _poisoned(*spec) for name, spec in outputs.items()}
    for space in program.workspaces:
        memory = _poisoned(*space.spec.stored)
        if space.initially is not Initially.ANYTHING:
            memory.bytes[:] = 0
        memories[space.spec.name] = memory
    for stage in program.stages:
        for name in stage.parameters:
            memories[name].writable = name in stage.writes
            memories[name].early = name in constants
        _run_function(stage.function, target, [memories[name] for name in stage.parameters], mode)
    for space in program.workspaces:
        if space.initially is Initially.STAYS_ZERO and memories[space.spec.name].bytes.any():
            raise EmulationFault(f"workspace {space.spec.name} does not stay zero")
    return {name: _array(memories[name], *spec) for name, spec in outputs.items()}


def wrong(
    template: Template,
    workload: Workload,
    config: Any,
    target: Target,
    modes: Sequence[str] = ("eager", "late"),
    seed: int = 7,
    case: Any = None,
    compiles: bool = False,
) -> str | None:
    """What is wrong with the outputs of a configuration, compared in full; None if they are right.

    case: activations and constants, random ones of the seed where None. compiles: whether the
    kernels must also need no headers but those here, and ptxas must take them.
    Raises EmulationFault and UnknownInstruction.
    """
    values, constants = random_case(workload, seed) if case is None else case
    expected = stored_outputs(workload, workload.reference_in_threads(values, constants, 2))
    program = template.program(workload, config, target)
    packed = template.constants(workload, config, constants)
    specs = (*workload.inputs, *template.packed(workload, config))
    constant = {spec.name for spec in specs[len(workload.inputs) :]}
    given = (*stored_activations(workload, values), *packed)
    arrays = {spec.name: array for spec, array in zip(specs, given, strict=True)}
    outputs = {spec.name: spec.stored for spec in workload.outputs}
    for mode in modes:
        found = run_program(program, target, arrays, outputs, MODES[mode], constant)
        complaint = complaints(list(found.values()), expected, workload, target)
        if complaint is not None:
            return f"{mode}: {complaint}"
    return _complaint_of_compilers(program, target) if compiles else None


def _complaint_of_compilers(program: Program, target: Target) -> str | None:
    for stage in program.stages:
        found = _compiled(stage.function, target)
        if not found.headers_suffice:
            return "needs headers that are not found to be needed"
        complaint = ptxas_complaint(found.ptx, target.arch)
        if complaint is not None:
            return complaint
    return None


def assert_right_emulated(
    template: Template,
    workload: Workload,
    config: Any,
    target: Target,
    modes: Sequence[str] = ("eager", "late"),
    case: Any = None,
) -> None:
    """Fail unless a configuration gives the reference's outputs on the emulator in every mode."""
    complaint = wrong(template, workload, config, target, modes, case=case)
    assert complaint is None, f"{target.arch} {template.name} {workload} {config}: {complaint}"


@dataclass(frozen=True)
class _Compiled:
    """launches of a function, bytes of the workspaces of its own, and its PTX."""

    launches: Sequence[Launch]
    spaces: Sequence[int]
    ptx: str
    headers_suffice: bool


def _run_function(
    function: PrimFunc, target: Target, memories: Sequence[Memory], mode: Mode
) -> None:
    compiled = _compiled(function, target)
    own = [_poisoned((size,), "uint8") for size in compiled.spaces]
    for item in compiled.launches:
        launch(compiled.ptx, item, [*memories, *own], mode)


# A function runs in one mode behind the other, all stages of its program in each.
@functools.lru_cache(maxsize=16)
def _compiled(function: PrimFunc, target: Target) -> _Compiled:
    lowered = lower(function, target)
    launches, spaces = host_launches(lowered.host["main"], len(function.params))
    return _Compiled(launches, spaces, *ptx_and_headers(cuda_source(lowered, target), target.arch))


def _poisoned(shape: tuple[int, ...], dtype: str) -> Memory:
    content = np.empty(shape, numpy_dtype(dtype))
    memory = Memory(content, True)
    memory.bytes[:] = POISON
    return memory


def _array(memory: Memory, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return memory.bytes.view(numpy_dtype(dtype)).reshape(shape)
