"""Heads of attention that become constant: where the products lie that have a head's channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from autoq.pruning.channel_links import Extent, Link
from autoq.pruning.onnx_constants import OnnxConstants, attribute
from autoq.pruning.onnx_weights import OnnxWeight, read_by

_BETWEEN = frozenset(("Add", "Cast", "Div", "Mul", "Sub", "Where"))
"""What may lie between scores and their softmax, alike for all heads."""
_TO_HEADS, _KEYS = [0, 2, 1, 3], [0, 2, 3, 1]


@dataclass(frozen=True, eq=False)
class _Part:
    """A product whose outputs are parted into heads.

    bias: what is added to them, [n], by the node that adds and its input. split: the Reshape.
    """

    place: int
    heads: int
    split: onnx.NodeProto
    bias: tuple[onnx.NodeProto, int] | None


def find_heads(
    graph: onnx.GraphProto,
    weights: Sequence[OnnxWeight],
    constants: OnnxConstants,
    shapes: Mapping[str, Sequence[int]],
) -> list[Link]:
    """A link for each attention between products of floats, from its values to its output.

    Shares of a softmax add up to 1, so that a head whose values are constant is, whatever its
    queries and keys are. shapes: of tensors, 0 where an extent is not known.
    """
    if any(len(read_by(node)) > len(node.input) for node in graph.node):
        return []
    finder = _Finder(graph, weights, constants, shapes)
    return [link for place in range(len(weights)) if (link := finder.link(place)) is not None]


class _Finder:
    def __init__(
        self,
        graph: onnx.GraphProto,
        weights: Sequence[OnnxWeight],
        constants: OnnxConstants,
        shapes: Mapping[str, Sequence[int]],
    ) -> None:
        self._weights, self._constants, self._shapes = weights, constants, shapes
        self._reads = [name for node in graph.node for name in node.input]
        self._reads += [value.name for value in graph.output]
        self._places = {
            id(one.readers[0]): place
            for place, one in enumerate(weights)
            if len(one.readers) == 1 and one.readers[0].op_type == "MatMul" and one.scale is None
        }

    def link(self, output: int) -> Link | None:
        """The link of the attention that a product reads."""
        reader = self._weights[output].readers[0]
        if id(reader) not in self._places:
            return None
        whole = self._maker(reader.input[0], "Reshape")
        turned = whole and self._maker(whole.input[0], "Transpose")
        context = turned and self._maker(turned.input[0], "MatMul")
        if context is None or _order(turned) != _TO_HEADS:
            return None
        softmax, value = self._maker(context.input[0], "Softmax"), self._part(context.input[1])
        scores = softmax and self._scores(softmax.input[0])
        if value is None or scores is None or attribute(softmax, "axis", -1) not in (-1, 3):
            return None
        query, key = self._part(scores.input[0]), self._part(scores.input[1], keys=True)
        if query is None or key is None or not query.heads == key.heads == value.heads:
            return None
        widths = {self._weights[one.place].tensor.dims[1] for one in (query, key, value)}
        extents = [Extent(one.split, 2) for one in (query, key, value)]
        extents.append(Extent(whole, 2))
        if len(widths) > 1 or not all(self._known(one) for one in extents):
            return None
        (width,) = widths
        at, index = value.bias or (None, 0)
        bias = np.zeros(width) if at is None else self._constants.value(at.input[index])
        link = Link((value.place,), {output: reader.input[0]})
        link.outputs[reader.input[0]] = np.asarray(bias, np.float32)
        link.constants += [(*one.bias, 0) for one in (query, key, value) if one.bias is not None]
        link.extents, link.unit = extents, width // value.heads
        link.unread = (query.place, key.place)
        return link

    def _part(self, name: str, keys: bool = False) -> _Part | None:
        """The product behind [batch, heads, tokens, size]; of keys sizes may lie outside."""
        turned = self._maker(name, "Transpose")
        order = _TO_HEADS
        if keys and turned is not None and _order(turned) == _KEYS:
            order = _KEYS
        elif keys and turned is not None and _order(turned) == [0, 1, 3, 2]:
            turned = self._maker(turned.input[0], "Transpose")
        split = turned and self._maker(turned.input[0], "Reshape")
        if split is None or _order(turned) != order:
            return None
        shape = self._constants.value(split.input[1])
        if shape is None or len(shape) != 4 or shape[2] < 1:
            return None
        bias, product = None, self._maker(split.input[0], "MatMul")
        if product is None:
            adding = self._maker(split.input[0], "Add")
            for index in (0, 1) if adding is not None else ():
                known = self._constants.tensors.get(adding.input[index])
                if known is not None and len(known.dims) == 1:
                    bias, product = (adding, index), self._maker(adding.input[1 - index], "MatMul")
        place = self._places.get(id(product))
        if place is None or self._weights[place].tensor.dims[1] % shape[2]:
            return None
        width = self._weights[place].tensor.dims[1]
        if bias is not None and self._constants.value(bias[0].input[bias[1]]).size != width:
            return None
        return _Part(place, int(shape[2]), split, bias)

    def _scores(self, name: str) -> onnx.NodeProto | None:
        """The product of queries and keys behind a softmax's input."""
        node = self._maker(name)
        if node is None or node.op_type == "MatMul":
            return node
        if node.op_type not in _BETWEEN:
            return None
        others = [one for one in node.input if self._alike(one)]
        further = [one for one in node.input if one not in others]
        return self._scores(further[0]) if len(further) == 1 else None

    def _alike(self, name: str) -> bool:
        """Whether a tensor has the same values for all heads."""
        tensor = self._constants.tensors.get(name)
        shape = self._shapes.get(name) if tensor is None else tensor.dims
        return shape is not None and (len(shape) < 3 or shape[-3] == 1)

    def _known(self, extent: Extent) -> bool:
        """Whether the number of heads, or their width, stands in a constant."""
        shape = self._constants.value(extent.node.input[1])
        return shape is not None and len(shape) > extent.position

    def _maker(self, name: str, kind: str = "") -> onnx.NodeProto | None:
        """The node that makes a tensor which is read once, of a kind."""
        node = self._constants.producers.get(name)
        if node is None or (kind and node.op_type != kind) or self._reads.count(name) != 1:
            return None
        return node if node.domain in ("", "ai.onnx") else None


def _order(node: onnx.NodeProto) -> list[int]:
    """The axes of a Transpose."""
    found = next((one for one in node.attribute if one.name == "perm"), None)
    return list(found.ints) if found is not None else []
