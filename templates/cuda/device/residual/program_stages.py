"""The stages of a residual product's program as they are put together, one behind the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvm.tirx import PrimFunc

from autoq.templates.cuda.device.residual.guard import guarded
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

WHOLE = TensorSpec("whole_sides", (2,), "int32")
"""Which sides take part by products."""


@dataclass
class Stages:
    """Stages in their order, and the workspaces that they are the first to write.

    given: the workload's arrays and constants.
    """

    given: frozenset[str]
    stages: list[Stage] = field(default_factory=list)
    workspaces: dict[str, Workspace] = field(default_factory=dict)

    def add(
        self,
        function: PrimFunc,
        reads: Sequence[TensorSpec | None],
        writes: Sequence[TensorSpec | None],
    ) -> None:
        """A kernel whose parameters are `reads`, then `writes`; None for those it lacks."""
        read = [spec.name for spec in reads if spec]
        written = [spec for spec in writes if spec]
        self.stages.append(Stage(function, tuple(read), tuple(spec.name for spec in written)))
        for spec in written:
            if spec.name not in self.given:
                self.workspaces.setdefault(spec.name, Workspace(spec))

    @property
    def written(self) -> frozenset[str]:
        """Arrays that are there."""
        return self.given | self.workspaces.keys()

    def multiply(
        self, product: Program, names: Mapping[str, str], y: TensorSpec | None, guard: int | None,
        target: Target,
    ) -> None:  # fmt: skip
        """The product over these arrays; guard: the word of `WHOLE` that says whether it is due."""
        part = product.renamed(names)
        for stage in part.stages:
            if guard is not None:
                function = guarded(stage.function, WHOLE.shape[0], guard, target)
                stage = Stage(function, (WHOLE.name, *stage.reads), stage.writes)
            self.stages.append(stage)
        for space in part.workspaces:
            self.workspaces.setdefault(space.spec.name, space)
        if y:
            self.workspaces[y.name] = Workspace(y)

    def guard_from(self, first: int, words: TensorSpec, word: int, target: Target) -> None:
        """Stages from `first` on run only where this word is not 0."""
        for at in range(first, len(self.stages)):
            stage = self.stages[at]
            function = guarded(stage.function, words.shape[0], word, target)
            self.stages[at] = Stage(function, (words.name, *stage.reads), stage.writes)

    @property
    def program(self) -> Program:
        return Program(tuple(self.stages), tuple(self.workspaces.values()))
