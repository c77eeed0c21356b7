"""Importers of ONNX operators, by (domain, operator)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import onnx

from autoq.frontend.builder import GraphBuilder


@dataclass(frozen=True)
class OnnxNode:
    """One ONNX node with its inputs already named in the graph (None where left out)."""

    op: str
    inputs: tuple[str | None, ...]
    attributes: dict[str, Any]
    outputs: tuple[str, ...]

    def input(self, index: int) -> str | None:
        """The input at `index`, None where the node leaves it out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def required(self, index: int, builder: GraphBuilder) -> str:
        """The input at `index`; raises ModelError where the node leaves it out."""
        name = self.input(index)
        if name is None:
            raise builder.error(f"input {index} is missing")
        return name

    def flag(self, name: str, builder: GraphBuilder, default: bool = False) -> bool:
        """An attribute that is 0 or 1; raises ModelError for any other number."""
        value = self.attributes.get(name, int(default))
        if value not in (0, 1):
            raise builder.error(f"{name} {value}; it is 0 or 1")
        return bool(value)

    @classmethod
    def read(cls, node: onnx.NodeProto, builder: GraphBuilder) -> OnnxNode:
        """The node with its attributes as Python values; raises ModelError for unknown inputs."""
        inputs: list[str | None] = []
        for name in node.input:
            if name and name not in builder.values:
                raise builder.error(f"its input {name!r} is made by no earlier node")
            inputs.append(builder.values[name] if name else None)
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                raise builder.error(
                    f"attribute {attribute.name!r} refers to a function's; inline the function"
                )
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        decoded = {k: v.decode() if isinstance(v, bytes) else v for k, v in attributes.items()}
        return cls(node.op_type, tuple(inputs), decoded, tuple(node.output))


Importer = Callable[[OnnxNode, GraphBuilder], str | list[str]]
"""Writes one node to the builder and returns the graph names of its outputs."""

OPERATORS: dict[tuple[str, str], Importer] = {}


def importer(*ops: str, domain: str = "") -> Callable[[Importer], Importer]:
    """Register the decorated function as the importer of `ops`."""

    def register(function: Importer) -> Importer:
        for op in ops:
            OPERATORS[domain, op] = function
        return function

    return register


def supported() -> str:
    """Every operator with an importer, for messages."""
    return ", ".join(sorted({op for _, op in OPERATORS}))
