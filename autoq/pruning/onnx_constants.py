"""Constants of an ONNX graph, as numbers or under a DequantizeLinear, and parts of them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from autoq.graph.constants import along_axis


class OnnxConstants:
    """The initializers of a graph, which are read and replaced here.

    Those that several nodes read are copied before one of them gets another.
    """

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph = graph
        self.tensors = {tensor.name: tensor for tensor in graph.initializer}
        self.producers = {name: node for node in graph.node for name in node.output}
        self._made = 0

    def dequantisation(self, name: str) -> onnx.NodeProto | None:
        """The DequantizeLinear of an initializer that makes a tensor."""
        node = self.producers.get(name)
        found = node is not None and node.op_type == "DequantizeLinear"
        constant = found and all(one in self.tensors for one in node.input if one)
        return node if constant else None

    def value(self, name: str) -> np.ndarray | None:
        """The numbers of a constant tensor, dequantised where they are integers; else None."""
        if name in self.tensors:
            return numpy_helper.to_array(self.tensors[name])
        node = self.dequantisation(name)
        if node is None or attribute(node, "block_size"):
            return None
        integers, scale, *zero_point = (
            numpy_helper.to_array(self.tensors[one]) for one in node.input if one
        )
        axis = attribute(node, "axis", 1) % max(1, integers.ndim)
        shaped = [
            along_axis(one, axis, integers.ndim) if one.size > 1 else one.reshape(())
            for one in (scale, *zero_point)
        ]
        real = integers.astype(np.int64) - (shaped[1].astype(np.int64) if zero_point else 0)
        return (real.astype(np.float32) * shaped[0].astype(np.float32)).astype(np.float32)

    def take(self, node: onnx.NodeProto, index: int, kept: np.ndarray, axis: int) -> None:
        """Keep a part of a node's constant input along an axis, with the scales of that part."""
        name = node.input[index]
        if name in self.tensors:
            node.input[index] = self._taken(name, kept, axis)
            return
        own = self._own_dequantisation(node, index)
        rank = len(self.tensors[own.input[0]].dims)
        own.input[0] = self._taken(own.input[0], kept, axis)
        if attribute(own, "axis", 1) % max(1, rank) == axis % rank:
            for place in range(1, len(own.input)):
                if np.prod(self.tensors[own.input[place]].dims, dtype=int) > 1:
                    own.input[place] = self._taken(own.input[place], kept, 0)

    def add(self, values: np.ndarray, name: str) -> str:
        """A further initializer, whose name begins with `name`."""
        made = self.graph.initializer.add()
        made.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values), self.fresh(name)))
        self.tensors[made.name] = made
        return made.name

    def fresh(self, name: str) -> str:
        """A name that nothing has yet."""
        taken = {*self.tensors, *self.producers}
        while (made := f"{name}.kept{self._made}") in taken:
            self._made += 1
        self._made += 1
        return made

    def drop_unread(self) -> None:
        """Remove initializers, and dequantisations of them, that nothing reads."""
        outputs = {value.name for value in self.graph.output}
        read = {name for node in self.graph.node for name in node.input} | outputs
        for node in [n for n in self.graph.node if n.op_type == "DequantizeLinear"]:
            if node.output[0] not in read:
                self.graph.node.remove(node)
        read = {name for node in self.graph.node for name in node.input} | outputs
        for tensor in [one for one in self.graph.initializer if one.name not in read]:
            self.graph.initializer.remove(tensor)

    def _own_dequantisation(self, node: onnx.NodeProto, index: int) -> onnx.NodeProto:
        """The node behind a constant input, which nothing else reads: a copy where others do."""
        name = node.input[index]
        old = self.dequantisation(name)
        if self._reads(name) == 1:
            return old
        made = onnx.NodeProto()
        made.CopyFrom(old)
        made.name, made.output[0] = self.fresh(old.name or name), self.fresh(name)
        place = next(i for i, one in enumerate(self.graph.node) if one == old)
        self.graph.node.insert(place, made)
        node.input[index] = made.output[0]
        self.producers[made.output[0]] = self.graph.node[place]
        return self.graph.node[place]

    def _taken(self, name: str, kept: np.ndarray, axis: int) -> str:
        """A part of an initializer: in its place where nothing else reads it."""
        part = np.compress(kept, numpy_helper.to_array(self.tensors[name]), axis)
        if self._reads(name) > 1:
            return self.add(part, name)
        self.tensors[name].CopyFrom(numpy_helper.from_array(part, name))
        return name

    def _reads(self, name: str) -> int:
        """How many inputs of nodes and outputs of the graph a tensor is."""
        outputs = sum(value.name == name for value in self.graph.output)
        return outputs + sum(one == name for node in self.graph.node for one in node.input)


def attribute(node: onnx.NodeProto, name: str, default: float = 0) -> float:
    """A number among a node's attributes."""
    found = next((one for one in node.attribute if one.name == name), None)
    return default if found is None else onnx.helper.get_attribute_value(found)
