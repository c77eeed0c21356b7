"""Everything that a model has and autoq does not support, gathered into one message."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx

from autoq.errors import ModelError
from autoq.frontend.nodes import default_domain
from autoq.frontend.read import CUSTOM_DOMAINS
from autoq.frontend.registry import supported

MOST_LISTED = 20
"""Problems that a message lists."""

_AFTERWARDS = "cut the model in front of it (onnx.utils.extract_model) and compute the rest after"
_CUSTOM = f"export it as operators of ONNX, or {_AFTERWARDS}"
_RECURRENT = "write the recurrence as products and element-wise operators, or export its steps"
_CONTROL = "export with fixed sizes and without control flow, so that conditions are constants"

ADVICE = {
    **dict.fromkeys(("NonMaxSuppression", "NonZero", "Unique", "RoiAlign"), _AFTERWARDS),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _RECURRENT),
    **dict.fromkeys(("Loop", "Scan"), _CONTROL),
    **dict.fromkeys(
        ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli",
         "Multinomial"),
        "export the model for inference, or make its random numbers an input",
    ),
}  # fmt: skip
"""What to do about operators that no export avoids by itself."""


@dataclass
class Problems:
    """What is wrong with a model of `source`, one entry a node or input.

    unknown: ONNX names of tensors that are not known for it.
    """

    source: str
    found: list[str] = field(default_factory=list)
    operators: dict[str, list[str]] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)

    def add(self, error: Exception) -> None:
        """Note an error of a node or an input."""
        self.found.append(str(error).removeprefix(f"{self.source}: "))

    def add_operator(self, node: onnx.NodeProto) -> None:
        """Note a node whose operator has no importer."""
        kind = node.op_type if default_domain(node) == "" else f"{node.domain}.{node.op_type}"
        name = node.name or (node.output[0] if node.output else node.op_type)
        self.operators.setdefault(kind, []).append(name)

    def raise_found(self) -> None:
        """Raise ModelError with all of them, if there are any."""
        lines = [_of_operator(kind, names) for kind, names in self.operators.items()]
        lines += self.found
        if not lines:
            return
        shown = lines[:MOST_LISTED]
        if len(lines) > len(shown):
            shown.append(f"and {len(lines) - len(shown)} more of the kind")
        text = shown[0] if len(shown) == 1 else f"{len(lines)} problems: " + "; ".join(shown)
        if self.operators:
            text += f"; supported: {supported()}"
            text += f"; domains are the default one and {', '.join(CUSTOM_DOMAINS)}"
        raise ModelError(f"{self.source}: {text}")


def _of_operator(kind: str, names: list[str]) -> str:
    """One line for all nodes of an operator."""
    op = kind.rpartition(".")[2]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    advice = ADVICE.get(op, _AFTERWARDS if kind == op else _CUSTOM)
    return f"node {names[0]!r} ({op}){more}: operator {kind} is not supported ({advice})"
