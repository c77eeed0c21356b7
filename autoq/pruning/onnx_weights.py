"""Weights of an ONNX model as matrices [k, n] and back: floats, or integers under their scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from autoq.graph.constants import along_axis

PRODUCTS = ("MatMul", "Gemm", "Conv")
_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


@dataclass(eq=False)
class OnnxWeight:
    """A weight that products read, and how it is a matrix.

    readers: the products, MatMul, Gemm or Conv, which all multiply by the same matrix.
    tensor: its initializer, as numbers or as integers. scale, zero_point: those of integers, shaped
    to broadcast, None of floats. transposed: whether a MatMul's or Gemm's weight is [n, k].
    A convolution's matrix is [taps x input channels, filters]: rows in the order (r, s, c).
    """

    readers: list[onnx.NodeProto]
    tensor: onnx.TensorProto
    scale: np.ndarray | None = None
    zero_point: np.ndarray | None = None
    transposed: bool = False

    @property
    def name(self) -> str:
        """The node that a person would look for."""
        return node_name(self.readers[0])

    @property
    def convolves(self) -> bool:
        """Whether its readers are convolutions."""
        return self.readers[0].op_type == "Conv"

    @property
    def taps(self) -> tuple[int, ...]:
        """Extents of a convolution's filters, none of others."""
        return tuple(self.tensor.dims[2:]) if self.convolves else ()

    def values(self) -> np.ndarray:
        """The matrix in real numbers, float32 or float64."""
        stored = numpy_helper.to_array(self.tensor)
        if self.scale is None:
            return self.as_matrix(stored.astype(np.float32))
        integers = stored.astype(np.int64) - self.zero_point
        return self.as_matrix(integers * self.scale.astype(np.float64))

    def prune(self, mask: np.ndarray) -> None:
        """Make the weights that `mask`, bool [k, n], does not keep zero, or their zero point."""
        stored = numpy_helper.to_array(self.tensor)
        zero = np.zeros((), stored.dtype) if self.zero_point is None else self.zero_point
        zeros = np.broadcast_to(zero, stored.shape).astype(stored.dtype)
        kept = np.where(self.as_stored(mask, stored.shape), stored, zeros)
        self.replace(kept)

    def replace(self, stored: np.ndarray) -> None:
        """Other numbers, of any shape, in the tensor's place and dtype."""
        name = self.tensor.name
        self.tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(stored), name))

    def as_matrix(self, stored: np.ndarray) -> np.ndarray:
        """An array of the tensor's shape as the matrix."""
        if self.convolves:
            return np.moveaxis(stored, (0, 1), (-1, -2)).reshape(-1, stored.shape[0])
        return stored.T if self.transposed else stored

    def as_stored(self, matrix: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """A matrix as an array of the tensor's shape."""
        if self.convolves:
            return np.moveaxis(matrix.reshape(*shape[2:], shape[1], shape[0]), (-1, -2), (0, 1))
        return matrix.T if self.transposed else matrix


@dataclass(frozen=True)
class Left:
    """A product whose weight is not pruned, and why."""

    name: str
    reason: str


def node_name(node: onnx.NodeProto) -> str:
    """A node's name, or that of its first output where it has none."""
    return node.name or node.output[0]


def read_by(node: onnx.NodeProto) -> list[str]:
    """The tensors that a node reads, those in its bodies included."""
    names = list(node.input)
    for one in node.attribute:
        for body in (one.g, *one.graphs):
            names += [name for inner in body.node for name in read_by(inner)]
            names += [value.name for value in body.output]
    return names


def find_weights(model: onnx.ModelProto) -> tuple[list[OnnxWeight], list[Left]]:
    """The weights of a model's products, in the order of the nodes, and the products without one.

    Constants that are nodes become initializers first. Weights that something else reads too, such
    as an embedding's, and those of grouped convolutions are left as they are.
    """
    _constants_to_initializers(model.graph)
    finder = _Finder(model.graph)
    for node in model.graph.node:
        if node.op_type in PRODUCTS and node.domain in ("", "ai.onnx"):
            finder.look_at(node)
    return finder.weights(), finder.left


class _Finder:
    def __init__(self, graph: onnx.GraphProto) -> None:
        self.left: list[Left] = []
        self._found: dict[str, OnnxWeight] = {}
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._producers = {name: node for node in graph.node for name in node.output}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        for node in graph.node:
            for name in read_by(node):
                self._readers.setdefault(name, []).append(node)
        self._outputs = {value.name for value in graph.output}

    def look_at(self, node: onnx.NodeProto) -> None:
        try:
            weight = self._weight(node)
        except ValueError as reason:
            self.left.append(Left(node_name(node), str(reason)))
            return
        known = self._found.setdefault(weight.tensor.name, weight)
        if known is not weight:
            known.readers.append(node)

    def weights(self) -> list[OnnxWeight]:
        """Those that nothing but their products reads."""
        made = []
        for weight in self._found.values():
            ends = {id(node) for node in weight.readers}
            others = [node for node in self._ends(weight.tensor.name) if id(node) not in ends]
            first = weight.readers[0]
            alike = all(
                (node.op_type, _flag(node, "transB")) == (first.op_type, _flag(first, "transB"))
                for node in weight.readers
            )
            if others or not alike or weight.tensor.name in self._outputs:
                by = node_name(others[0]) if others else "products of another kind"
                reason = f"its weight is read by {by} too"
                self.left += [Left(node_name(node), reason) for node in weight.readers]
            else:
                made.append(weight)
        return made

    def _ends(self, name: str) -> list[onnx.NodeProto]:
        """What reads a tensor, itself or dequantised."""
        found = []
        for node in self._readers.get(name, []):
            through = node.op_type == "DequantizeLinear" and node.input[0] == name
            found += self._ends(node.output[0]) if through else [node]
        return found

    def _weight(self, node: onnx.NodeProto) -> OnnxWeight:
        """The weight of a product; raises ValueError with the reason where it has none."""
        transposed = node.op_type == "Gemm" and bool(_flag(node, "transB"))
        if node.op_type == "Conv" and _flag(node, "group", 1) != 1:
            raise ValueError("a grouped convolution")
        name, dequantise = node.input[1], self._producers.get(node.input[1])
        if dequantise is not None and dequantise.op_type == "DequantizeLinear":
            name = dequantise.input[0]
        else:
            dequantise = None
        tensor = self._tensors.get(name)
        if tensor is None:
            raise ValueError("its second operand is no constant")
        rank = len(tensor.dims)
        if 0 in tensor.dims or (rank < 3 if node.op_type == "Conv" else rank != 2):
            raise ValueError(f"a weight of {list(tensor.dims)}")
        if dequantise is None:
            if tensor.data_type not in _FLOATS:
                raise ValueError("a weight that is neither of floats nor dequantised")
            return OnnxWeight([node], tensor, transposed=transposed)
        scale, zero_point = self._scheme(dequantise, tuple(tensor.dims))
        return OnnxWeight([node], tensor, scale, zero_point, transposed)

    def _scheme(
        self, node: onnx.NodeProto, shape: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scale and zero point of a dequantisation, shaped to broadcast to `shape`."""
        names = [name for name in node.input[1:] if name]
        if not all(name in self._tensors for name in names):
            raise ValueError("its weight's scale is no constant")
        scale, *given = (numpy_helper.to_array(self._tensors[name]) for name in names)
        zero_point = given[0] if given else np.zeros(scale.shape, np.int8)
        axis, block = _flag(node, "axis", 1) % len(shape), _flag(node, "block_size")
        made = []
        for values in (scale.astype(np.float64), zero_point.astype(np.int64)):
            if block:
                values = np.repeat(values, block, axis).take(range(shape[axis]), axis)
            elif values.size > 1:
                values = along_axis(values, axis, len(shape))
            else:
                values = values.reshape(())
            made.append(values)
        return made[0], made[1]


def _flag(node: onnx.NodeProto, name: str, default: int = 0) -> int:
    return next((one.i for one in node.attribute if one.name == name), default)


def _constants_to_initializers(graph: onnx.GraphProto) -> None:
    kept = []
    for node in graph.node:
        value = next((one.t for one in node.attribute if one.name == "value"), None)
        if node.op_type == "Constant" and value is not None:
            tensor = graph.initializer.add()
            tensor.CopyFrom(value)
            tensor.name = node.output[0]
        else:
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)
