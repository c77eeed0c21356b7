"""Where output channels of products go: through element-wise nodes and sums, to other products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from autoq.pruning.onnx_constants import OnnxConstants, attribute
from autoq.pruning.onnx_weights import OnnxWeight, read_by

ELEMENTWISE = frozenset(
    (
        "Abs", "Add", "Cast", "Celu", "Clip", "DequantizeLinear", "Div", "Elu", "Erf", "Gelu",
        "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Mish", "Mul", "Neg", "Pow", "PRelu",
        "QuantizeLinear", "Relu", "Selu", "Sigmoid", "Softplus", "Sqrt", "Sub", "Tanh",
    )
)  # fmt: skip
_POOLS = frozenset(("MaxPool", "GlobalMaxPool", "AveragePool", "GlobalAveragePool"))


@dataclass(frozen=True, eq=False)
class Extent:
    """A number in the shape that a Reshape reads: of channels, or of groups of them."""

    node: onnx.NodeProto
    position: int


@dataclass(eq=False)
class Link:
    """Output channels that only other products read, of a product or of several that are added.

    producers, consumers: places among the weights. constants: inputs of the nodes between with a
    value for each channel, as (node, input, axis). outputs: the value of a channel whose weights
    are zero in all producers, [n], by the name of each tensor that a consumer reads. unit:
    consecutive channels that can only leave together. unread: products of as many channels, which
    nothing reads where those are constant. extents: what shapes say of the channels.
    """

    producers: tuple[int, ...]
    consumers: dict[int, str] = field(default_factory=dict)
    constants: list[tuple[onnx.NodeProto, int, int]] = field(default_factory=list)
    outputs: dict[str, np.ndarray] = field(default_factory=dict)
    unit: int = 1
    unread: tuple[int, ...] = ()
    extents: list[Extent] = field(default_factory=list)

    @property
    def narrowed(self) -> tuple[int, ...]:
        """The products whose channels leave."""
        return (*self.producers, *self.unread)

    def in_units(self, channels: np.ndarray) -> np.ndarray:
        """Of channels, bool [n], those whose whole unit is among them."""
        return np.repeat(channels.reshape(-1, self.unit).all(axis=1), self.unit)


class _Leaves(Exception):
    """The channels are read by something that has to have all of them."""


class _Joins(Exception):
    """The channels meet those of further products, which are its argument."""


def find_links(
    graph: onnx.GraphProto, weights: Sequence[OnnxWeight], constants: OnnxConstants
) -> list[Link]:
    """The links of a graph, in the order of its nodes; none where nodes have bodies."""
    if any(len(read_by(node)) > len(node.input) for node in graph.node):
        return []
    walk = _Walk(graph, constants, weights)
    found: list[Link] = []
    seen: set[int] = set()
    for place in range(len(weights)):
        if place not in seen:
            link, members = walk.link(place)
            seen |= members
            found += [] if link is None else [link]
    return found


class _Walk:
    def __init__(
        self,
        graph: onnx.GraphProto,
        constants: OnnxConstants,
        weights: Sequence[OnnxWeight],
    ) -> None:
        self._graph, self._constants, self._weights = graph, constants, weights
        self._outputs = {value.name for value in graph.output}
        self._places = {
            id(node): place for place, one in enumerate(weights) for node in one.readers
        }

    def link(self, place: int) -> tuple[Link | None, set[int]]:
        """The link behind a product, if there is one, and the products whose channels meet."""
        members = {place}
        while True:
            link = Link(tuple(sorted(members)))
            try:
                self._follow(link)
            except _Joins as joins:
                if joins.args[0] <= members:
                    return None, members
                members |= joins.args[0]
            except _Leaves:
                return None, members
            else:
                return link if link.consumers else None, members

    def _start(self, place: int) -> np.ndarray:
        """What the channels of a product are without weights, shaped as its output is."""
        weight = self._weights[place]
        bias = self._bias(weight.readers[0])
        if len(weight.readers) > 1 or bias is None:
            raise _Leaves
        # Channels lie along this axis, counted from the last one.
        axis = 1 - len(weight.tensor.dims) if weight.convolves else -1
        n = weight.values().shape[1]
        start = np.broadcast_to(bias, n).reshape(1, n, *[1] * (-axis - 1))
        return start.astype(np.float32)

    def _bias(self, node: onnx.NodeProto) -> np.ndarray | None:
        """What a channel without weights is; None where that is not known or no vector."""
        if len(node.input) < 3 or not node.input[2]:
            return np.zeros(1)
        if attribute(node, "alpha", 1.0) != 1 or attribute(node, "beta", 1.0) != 1:
            return None
        value = self._constants.value(node.input[2])
        return value if value is not None and value.ndim == 1 else None

    def _follow(self, link: Link) -> None:
        """Fill in a link from all nodes that read the channels, directly or not."""
        starts = {
            self._weights[place].readers[0].output[0]: self._start(place)
            for place in link.producers
        }
        if len({start.shape for start in starts.values()}) > 1:
            raise _Leaves
        values: dict[str, np.ndarray] = {}
        single: set[str] = set()
        for node in self._graph.node:
            carried = [name for name in node.input if name in values]
            if id(node) in self._places:
                if carried:
                    self._end(node, values, link)
                values |= {name: starts[name] for name in node.output if name in starts}
                continue
            if not carried:
                continue
            if node.domain not in ("", "ai.onnx"):
                raise _Leaves
            if node.op_type in _POOLS and self._keeps_constants(node):
                result = values[node.input[0]]
                if node.op_type.startswith("Global"):
                    single.add(node.output[0])
            elif node.op_type == "Flatten" and node.input[0] in single:
                if attribute(node, "axis", 1) != 1:
                    raise _Leaves
                result = values[node.input[0]].reshape(1, -1)
            elif node.op_type in ELEMENTWISE:
                result = self._computed(node, values, link)
                if all(name in single for name in carried):
                    single.add(node.output[0])
            else:
                raise _Leaves
            values[node.output[0]] = result
        if any(name in self._outputs for name in values):
            raise _Leaves

    def _end(self, node: onnx.NodeProto, values: dict[str, np.ndarray], link: Link) -> None:
        """A product that reads the channels."""
        place = self._places[id(node)]
        weight, x = self._weights[place], values.get(node.input[0])
        rank = len(weight.tensor.dims) if weight.convolves else 2
        fits = x is not None and x.ndim == rank and not any(n in values for n in node.input[1:])
        dequantise = self._constants.dequantisation(node.input[1])
        blocks = dequantise is not None and attribute(dequantise, "block_size")
        if not fits or attribute(node, "transA") or len(weight.readers) > 1 or blocks:
            raise _Leaves
        link.consumers[place] = node.input[0]
        link.outputs[node.input[0]] = x.ravel()

    def _keeps_constants(self, node: onnx.NodeProto) -> bool:
        """Whether a pool of a constant channel is that constant, at its borders too."""
        plain = node.op_type != "AveragePool" or not attribute(node, "count_include_pad")
        return plain and len(node.output) == 1

    def _computed(
        self, node: onnx.NodeProto, values: dict[str, np.ndarray], link: Link
    ) -> np.ndarray:
        """What a node makes of constant channels."""
        shape = next(values[name].shape for name in node.input if name in values)
        feeds: dict[str, np.ndarray] = {}
        for place, name in enumerate(node.input):
            if not name or name in values:
                if name:
                    feeds[name] = values[name]
                continue
            value = self._constants.value(name)
            if value is None:
                raise _Joins(self._makers(name))
            feeds[name] = value
            # The axis of the channels, in a constant that may have fewer axes.
            axis = value.ndim - (len(shape) - 1)
            if value.size > 1:
                if axis < 0 or value.shape[axis] != value.size or value.size != shape[1]:
                    raise _Leaves
                if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
                    raise _Leaves
                link.constants.append((node, place, axis))
        result = ReferenceEvaluator(node).run(None, feeds)[0]
        if np.shape(result) != shape:
            raise _Leaves
        return np.asarray(result)

    def _makers(self, name: str) -> set[int]:
        """The products whose channels a tensor has, through element-wise nodes and pools."""
        found: set[int] = set()
        names, seen = [name], set[str]()
        while names:
            one = names.pop()
            if not one or one in seen or self._constants.value(one) is not None:
                continue
            seen.add(one)
            node = self._constants.producers.get(one)
            if node is None:
                raise _Leaves
            if id(node) in self._places:
                found.add(self._places[id(node)])
            elif node.op_type in ELEMENTWISE | _POOLS:
                names += node.input
            else:
                raise _Leaves
        return found
