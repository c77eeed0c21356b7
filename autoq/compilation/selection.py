"""Which kernel computes a node of the graph: from a record, or by default."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from autoq.devices import Host
from autoq.errors import ModelError
from autoq.graph.ir import Fusion, Layer, Node, Siblings
from autoq.graph.lowering.fusions import fusion_prim_func, fusion_program, kernel_family
from autoq.kernel import compile_kernel
from autoq.kernel.compile import compile_program
from autoq.kernel.kernel_store import KernelStore
from autoq.knowledge.choice import default_of, predicted, usable, worthwhile
from autoq.knowledge.model import KnowledgeModel
from autoq.records.database import Database
from autoq.records.lookup import Choice, lookup
from autoq.runtime.kernel import Kernel
from autoq.search.union import Candidate
from autoq.templates.base import Template
from autoq.templates.registry import matching
from autoq.templates.target import Target
from autoq.templates.workload import Workload

DEFAULT = "default"
"""Source of a configuration that could be tuned and is not."""
PREDICTED = "predicted"
"""Source of a configuration that a model of records expects to be fast."""
FIXED = "fixed"
"""Source of a kernel that has nothing to tune."""
_OVER_A_RECORD = math.log(1.03)
"""What a model's choice must promise over a measured time.

The best of many guesses promises more than it keeps.
"""


@dataclass(frozen=True)
class TemplateSelection:
    """A template's kernel with its configuration, before it is compiled.

    `source` is where the configuration comes from: a record's file, PREDICTED, DEFAULT or FIXED;
    `lender` the sibling device whose record it is, empty for one of the device's own; `ahead` as in
    `Template.program`.
    """

    node: Layer
    target: Target
    source: str
    chosen: Template
    config: Any
    lender: str = ""
    ahead: int = 0

    @property
    def template(self) -> str:
        return self.chosen.name

    @property
    def key(self) -> Hashable:
        """Equal for kernels that share machine code."""
        return (self.node.workload, self.template, self.config, self.ahead)

    def compiled(self, cache_dir: Path | None) -> Kernel:
        """Its machine code, kept in cache_dir; raises BuildError."""
        store = KernelStore(cache_dir)
        return store.kernel(
            self.chosen, self.node.workload, self.config, self.target, ahead=self.ahead
        )

    def looking_ahead(self, ahead: int) -> TemplateSelection:
        """The selection whose kernel looks so many bytes ahead, where its template can."""
        return replace(self, ahead=ahead) if self.chosen.looks_ahead else self

    def constants(self) -> tuple[np.ndarray, ...]:
        """The arrays the kernel takes between its inputs and its output."""
        return self.chosen.constants(self.node.workload, self.config, self.node.constants)

    @property
    def constant_bytes(self) -> int:
        """Of these arrays."""
        packed = self.chosen.packed(self.node.workload, self.config)
        return sum(spec.bytes for spec in packed)


@dataclass(frozen=True)
class FusionSelection:
    """A kernel for a fusion or for siblings, before it is compiled."""

    node: Fusion | Siblings
    target: Target

    source: ClassVar[str] = FIXED
    ahead: ClassVar[int] = 0

    @property
    def template(self) -> str:
        return f"{kernel_family(self.node, self.target)} {self.node.kind}"

    @property
    def key(self) -> Hashable:
        """Equal for kernels that share machine code."""
        return self.node.key

    def compiled(self, cache_dir: Path | None) -> Kernel:
        """Its machine code, kept in cache_dir; raises BuildError."""
        first = self.node.parts[0]
        if first.quantised or first.picked:
            program, arrays = fusion_program(first, self.target)
            return compile_program(program, arrays, self.target, cache_dir=cache_dir)
        function = fusion_prim_func(self.node, self.target)
        return compile_kernel(function, self.target, cache_dir=cache_dir)

    def looking_ahead(self, ahead: int) -> FusionSelection:
        """The selection itself: no such kernel looks ahead."""
        return self

    def constants(self) -> tuple[np.ndarray, ...]:
        """The arrays the kernel takes between its inputs and its output."""
        return self.node.kernel_constants

    @property
    def constant_bytes(self) -> int:
        """Of these arrays."""
        return sum(array.nbytes for array in self.constants())


Selection = TemplateSelection | FusionSelection


def select(
    node: Node,
    host: Host,
    database: Database,
    templates: Sequence[Template],
    models: Sequence[KnowledgeModel] = (),
) -> Selection:
    """Choose a template and configuration; raises ModelError when nothing can compute the node.

    models: as in `choose`.
    """
    target = host.target
    if isinstance(node, Fusion | Siblings):
        return FusionSelection(node, target)
    if not isinstance(node, Layer):
        raise ModelError(f"node {node.name!r} ({node.op}) was not lowered to a kernel")
    chosen = choose(node.workload, host, database, templates, models)
    if chosen is None:
        raise ModelError(
            f"node {node.name!r}: no kernel for {node.workload!r} on {target.kind} {target.arch}"
        )
    return TemplateSelection(
        node, target, chosen.source, chosen.template, chosen.config, chosen.lender
    )


@dataclass(frozen=True)
class Chosen:
    """A template and its configuration; `source` and `lender` as in `TemplateSelection`."""

    template: Template
    config: Any
    source: str
    lender: str = ""


def _faster(own: Choice | None, less: Choice | None) -> Choice | None:
    """What is recorded of a workload that knows zeros, or of one that knows less of them or none.

    The latter where there is nothing else, or where it took less time on the same device: kernels
    that skip zeros may have been measured alone.
    """
    if own is None or less is None:
        return own or less
    mine, other = own.found.record, less.found.record
    faster = other.device.name == mine.device.name and other.seconds < mine.seconds
    return less if faster else own


def choose(
    workload: Workload,
    host: Host,
    database: Database,
    templates: Sequence[Template],
    models: Sequence[KnowledgeModel] = (),
) -> Chosen | None:
    """The best usable record's configuration, else what a model of records expects to be fastest.

    Of a workload that knows its weight's zeros, records of those that know less are of use as well,
    as `_faster` says, and where there are only such, what the model expects to be clearly faster
    than they are. Without any record it is the preferred template's default; None where no template
    matches.
    models: of any devices, the preferred ones first.
    """
    target = host.target
    own = choice = lookup(database, workload, target, templates, host.device)
    for less in workload.knowing_less:
        choice = _faster(choice, lookup(database, less, target, templates, host.device))
    recorded = None
    if choice is not None:
        device = choice.found.record.device.name
        lender = "" if host.device in (None, device) else device
        recorded = Chosen(choice.template, choice.config, choice.found.source, lender)
        if own is not None:
            return recorded
    matches = matching(workload, target, templates)
    if not matches:
        return recorded
    default = recorded or Chosen(
        matches[0],
        default_of(matches[0], workload, target),
        DEFAULT if any(template.tunable for template in matches) else FIXED,
    )
    return _expected_faster(workload, default, matches, host, models) or default


def _expected_faster(
    workload: Workload,
    than: Chosen,
    matches: Sequence[Template],
    host: Host,
    models: Sequence[KnowledgeModel],
) -> Chosen | None:
    """What a model expects to be faster than a choice, where the model is to say; else None.

    matches: the templates of the workload, the preferred one first.
    """
    target, preferred = host.target, matches[0]
    model = usable(models, target.arch, host.device)
    if model is None or not preferred.tunable:
        return None
    least = model.least_promise(workload, preferred.name, preferred.version)
    legal = than.template in matches and than.config in than.template.space(workload, target)
    if least is None or not legal:
        return None
    if than.source not in (DEFAULT, FIXED):
        least = max(least, _OVER_A_RECORD)
    tunable = [template for template in matches if template.tunable]
    over = Candidate(than.template.name, than.config)
    fastest = worthwhile(predicted(model, workload, tunable, target, over), over, least)
    return fastest and Chosen(fastest.template, fastest.config, PREDICTED)
