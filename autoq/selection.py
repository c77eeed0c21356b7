"""Which kernel computes a node of the graph: from a record, or by default."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autoq.devices import Host
from autoq.errors import ModelError
from autoq.graph.ir import Kernel, Node, Operator
from autoq.graph.operators import operator_prim_func
from autoq.records.database import Database
from autoq.records.lookup import lookup
from autoq.templates.base import Template
from autoq.templates.registry import TEMPLATES, matching
from autoq.templates.target import Target

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

DEFAULT = "default"
"""Source of a configuration that could be tuned and is not."""
FIXED = "fixed"
"""Source of a kernel that has nothing to tune."""


@dataclass(frozen=True)
class Selection:
    """A node's kernel before it is compiled; nodes of equal `key` share machine code."""

    node: Kernel | Operator
    target: Target
    template: str
    source: str
    chosen: Template | None = None
    config: Any = None

    @property
    def layer(self) -> str:
        return self.node.name

    @property
    def key(self) -> Hashable:
        if isinstance(self.node, Operator):
            return self.node.key
        return (self.node.workload, self.template, self.config)

    def prim_func(self) -> PrimFunc:
        """The kernel as TIR."""
        if isinstance(self.node, Operator):
            return operator_prim_func(self.node, self.target)
        assert self.chosen is not None
        return self.chosen.build(self.node.workload, self.config, self.target)

    def constants(self) -> tuple[np.ndarray, ...]:
        """The arrays the kernel takes between its inputs and its output."""
        if isinstance(self.node, Operator):
            return self.node.constants
        assert self.chosen is not None
        return self.chosen.pack(self.node.workload, self.config, self.node.operands)


def select(node: Node, host: Host, database: Database) -> Selection:
    """Choose a template and configuration; raises ModelError when nothing can compute the node."""
    target = host.target
    if isinstance(node, Operator):
        return Selection(node, target, f"tvm {node.kind}", FIXED)
    if not isinstance(node, Kernel):
        raise ModelError(f"node {node.name!r} ({node.op}) was not lowered to a kernel")
    choice = lookup(database, node.workload, target, TEMPLATES, host.device)
    if choice is not None:
        source = choice.found.source
        return Selection(node, target, choice.template.name, source, choice.template, choice.config)
    templates = matching(node.workload, target)
    if not templates:
        raise ModelError(
            f"node {node.name!r}: no kernel for {node.workload!r} on {target.kind} {target.arch}"
        )
    first = templates[0]
    source = DEFAULT if any(template.tunable for template in templates) else FIXED
    config = first.default(node.workload, target)
    return Selection(node, target, first.name, source, first, config)
