"""Programs: what a template builds, one or several PrimFuncs with workspaces between them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from autoq.errors import BuildError
from autoq.templates.arrays.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc


class Initially(Enum):
    """What a workspace holds when a program starts.

    ANYTHING: bytes of whoever used the memory before. ZERO: zeros, which the runtime writes before
    each run. STAYS_ZERO: zeros, which the runtime writes once; each run leaves zeros behind, as
    semaphores that count back do, and pays for no clearing.
    """

    ANYTHING = "anything"
    ZERO = "zero"
    STAYS_ZERO = "stays zero"


@dataclass(frozen=True)
class Workspace:
    """An array between stages, in memory that others use before and after a run."""

    spec: TensorSpec
    initially: Initially = Initially.ANYTHING


@dataclass(frozen=True)
class Stage:
    """One PrimFunc of a program, and the buffers that it is called with, by name.

    The function's parameters are `reads`, then those of `writes` that it does not read. A buffer
    in both is updated in place.
    """

    function: PrimFunc
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The buffers in the order of the function's parameters."""
        return (*self.reads, *(name for name in self.writes if name not in self.reads))


@dataclass(frozen=True)
class Program:
    """Stages that run one after the other, and the workspaces between them.

    Stages name their buffers: the inputs and outputs of the workload, the constants as
    `Template.packed` names them, and the workspaces. One configuration decides all stages.
    """

    stages: tuple[Stage, ...]
    workspaces: tuple[Workspace, ...] = ()

    def renamed(self, names: Mapping[str, str]) -> Program:
        """The program over buffers of other names; those that are not in `names` keep theirs.

        So a program becomes a part of a larger one: its stages and workspaces are taken over under
        names that nothing else there has.
        """

        def all_of(given: Sequence[str]) -> tuple[str, ...]:
            return tuple(names.get(name, name) for name in given)

        def moved(item: Workspace) -> Workspace:
            (name,) = all_of([item.spec.name])
            return Workspace(dataclasses.replace(item.spec, name=name), item.initially)

        stages = tuple(Stage(s.function, all_of(s.reads), all_of(s.writes)) for s in self.stages)
        return Program(stages, tuple(map(moved, self.workspaces)))


def alone(
    function: PrimFunc,
    inputs: Sequence[TensorSpec],
    constants: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
) -> Program:
    """A program of one stage; the function's parameters are inputs, constants, outputs."""
    reads = tuple(spec.name for spec in (*inputs, *constants))
    return Program((Stage(function, reads, tuple(spec.name for spec in outputs)),))


def check_program(
    program: Program,
    inputs: Sequence[TensorSpec],
    constants: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    exact: bool,
) -> None:
    """Raise BuildError for a program whose stages cannot be run over these arrays.

    Each stage reads what is given, what an earlier stage wrote or a workspace of zeros, and writes
    workspaces and outputs alone, of which all are written. Its function's parameters are of the
    buffers' dtypes and sizes, and where `exact` of their shapes: kernels for CUDA get addresses.
    """
    specs: dict[str, TensorSpec] = {}
    workspaces = [item.spec for item in program.workspaces]
    for spec in (*inputs, *constants, *outputs, *workspaces):
        if spec.name in specs:
            raise BuildError(f"two buffers of the program are called {spec.name!r}")
        specs[spec.name] = spec
    zeros = {w.spec.name for w in program.workspaces if w.initially is not Initially.ANYTHING}
    ready = {spec.name for spec in (*inputs, *constants)} | zeros
    writable = {spec.name for spec in (*outputs, *workspaces)}
    for number, stage in enumerate(program.stages):
        where = f"stage {number} of the program"
        for name in stage.parameters:
            if name not in specs:
                raise BuildError(f"{where}: no buffer {name!r}; there are {', '.join(specs)}")
        for name in stage.reads:
            if name not in ready:
                raise BuildError(f"{where}: reads {name!r}, which no stage before it writes")
        for name in stage.writes:
            if name not in writable:
                raise BuildError(f"{where}: writes {name!r}, which is given")
        _check_parameters(stage, specs, exact, where)
        ready.update(stage.writes)
    for spec in (*outputs, *workspaces):
        if spec.name not in ready:
            raise BuildError(f"no stage of the program writes {spec.name!r}")


def _check_parameters(
    stage: Stage, specs: Mapping[str, TensorSpec], exact: bool, where: str
) -> None:
    names, taken = stage.parameters, list(stage.function.params)
    if len(set(names)) != len(names) or len(names) != len(taken):
        raise BuildError(
            f"{where}: {len(taken)} parameters for the buffers {', '.join(names) or 'none'}"
        )
    for name, parameter in zip(names, taken, strict=True):
        shape, dtype = specs[name].stored
        found, item = tuple(int(extent) for extent in parameter.shape), str(parameter.dtype)
        fits = found == shape if exact else math.prod(found) == math.prod(shape)
        if item != dtype or not fits:
            raise BuildError(
                f"{where}: takes {item}{list(found)} for {name!r}, which is {dtype}{list(shape)}"
            )
