"""The Template record: one kernel algorithm, its space of configurations and how to build one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autoq.errors import BuildError
from autoq.search.space import Space
from autoq.templates.arrays.layout import NHWC
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.program import Program, alone, check_program
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc


@dataclass(frozen=True)
class Template:
    """One algorithm for one kind of workload on one kind of target.

    computes(workload, target): whether the template can compute it exactly, given that it knows
        the workload's `layouts`; ask `matches`.
    space(workload, target): legal configurations; constraints are named functions.
    default(workload, target): a sensible untuned configuration, legal in the space.
    build(workload, config, target): a pure function to a Program, or to a PrimFunc alone, whose
        parameters are the workload's `inputs`, the constants of `packed`, then its `outputs`.
        Buffers have the canonical shapes of the workload's activations. Ask `program`.
    pack(workload, config, constants): the constant arrays in the layout the kernel reads. Ask
        `constants`.
    packed(workload, config): what `pack` gives, name, shape and dtype of each array.
    version: raised whenever the meaning of a configuration changes; records of another version
        are never used.
    packs_by(workload, config): what `pack` makes of a configuration, hashable: where it is equal
        the constants are. None where that is just what `pack` reads of a configuration.
    tunable: False for templates whose one configuration is always used.
    layouts: of activations (`arrays/layout.py`) that it reads and writes.
    estimate(workload, config, target): roughly the seconds of a configuration, comparable with
        other estimates of the same template only; None where it has no model of its time.
    keeps_nibbles: whether `pack` leaves 4-bit weights two a byte, if it takes any.
    dynamic: whether it takes products whose x was quantised as it came (`Epilogue.dynamic`).
    looks_ahead: whether `build` also takes `ahead`, the bytes of constants behind those of a kernel
        which it asks the L2 cache for, giving its own up first.
    preference: of templates that match a workload the one with the largest is used untuned.
    preference_for(workload, target): its preference where that depends on the workload.
    module: the one that defines it, on whose source code its kernels depend; where `build` stands
        in another one it must be given.
    """

    name: str
    version: int
    computes: Callable[[Any, Target], bool]
    space: Callable[[Any, Target], Space[Any]]
    default: Callable[[Any, Target], Any]
    build: Callable[..., PrimFunc | Program]
    pack: Callable[[Any, Any, Constants], tuple[np.ndarray, ...]]
    packed: Callable[[Any, Any], tuple[TensorSpec, ...]]
    tunable: bool = True
    layouts: frozenset[str] = frozenset((NHWC,))
    estimate: Callable[[Any, Any, Target], float] | None = None
    keeps_nibbles: bool = False
    dynamic: bool = False
    looks_ahead: bool = False
    preference: int = 0
    preference_for: Callable[[Any, Target], int] | None = None
    packs_by: Callable[[Any, Any], Hashable] | None = None
    module: str = ""

    def __post_init__(self) -> None:
        if not self.module:
            object.__setattr__(self, "module", self.build.__module__)

    def matches(self, workload: Workload, target: Target) -> bool:
        """Whether the template can compute the workload exactly on the target."""
        if workload.dynamic and not self.dynamic:
            return False
        return workload.layouts <= self.layouts and self.computes(workload, target)

    def preference_of(self, workload: Workload, target: Target) -> int:
        """Its preference for a workload that it matches."""
        if self.preference_for is None:
            return self.preference
        return self.preference_for(workload, target)

    def program(self, workload: Workload, config: Any, target: Target, ahead: int = 0) -> Program:
        """What `build` gives, as a program; raises BuildError for one that cannot be run.

        ahead: bytes of constants behind the kernel's own that it asks the L2 cache for; 0 for any
        template that does not look ahead.
        """
        arrays = workload.inputs, self.packed(workload, config), workload.outputs
        options = {"ahead": ahead} if ahead else {}
        built = self.build(workload, config, target, **options)
        program = built if isinstance(built, Program) else alone(built, *arrays)
        check_program(program, *arrays, exact=target.kind == "cpu")
        return program

    def constants(
        self, workload: Workload, config: Any, constants: Constants
    ) -> tuple[np.ndarray, ...]:
        """What `pack` gives; raises BuildError where it is not what `packed` says."""
        arrays = self.pack(workload, config, constants)
        found = [f"{array.dtype}{list(array.shape)}" for array in arrays]
        said = [f"{s.dtype}{list(s.shape)}" for s in self.packed(workload, config)]
        if found != said:
            raise BuildError(
                f"{self.name}: packs {', '.join(found) or 'nothing'} instead of "
                f"{', '.join(said) or 'nothing'}"
            )
        return arrays


def pack_nothing(workload: Workload, config: Any, constants: Constants) -> tuple[np.ndarray, ...]:
    """`Template.pack` of kernels without constants."""
    return ()


def packed_nothing(workload: Workload, config: Any) -> tuple[TensorSpec, ...]:
    """What `pack_nothing` gives."""
    return ()
