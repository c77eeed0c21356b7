"""Adds constants to the outputs of an ONNX graph's products."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from autoq.pruning.border_kinds import BorderKinds
from autoq.pruning.onnx_constants import OnnxConstants, attribute
from autoq.pruning.onnx_weights import OnnxWeight, node_name

_LARGEST = 2**31 - 1


class BiasWriter:
    """Writes into the biases that products of a graph have, or behind them."""

    def __init__(self, graph: onnx.GraphProto, constants: OnnxConstants) -> None:
        self._graph, self._constants = graph, constants

    def takes(self, node: onnx.NodeProto, kinds: BorderKinds | None, weight: OnnxWeight) -> bool:
        """Whether anything can be added to the product of a weight.

        Quantised products take integers, which their bias alone holds, one value a channel.
        """
        if kinds is None or attribute(node, "alpha", 1.0) != 1 or attribute(node, "beta", 1) != 1:
            return False
        name = node.input[2] if len(node.input) > 2 else ""
        known = self._constants.value(name) if name else None
        if weight.scale is None:
            return not name or (name in self._constants.tensors and known.ndim == 1)
        return bool(name) and kinds.alike and self._integers(name)

    def add(
        self, node: onnx.NodeProto, by_tap: np.ndarray, kinds: BorderKinds, weight: OnnxWeight
    ) -> None:
        """Add values [taps, n], each where its tap lies within the image."""
        if kinds.alike:
            self._add_vector(node, by_tap.sum(axis=0), weight)
            return
        n = by_tap.shape[1]
        table = kinds.table(by_tap.reshape(*weight.taps, n))[None]
        dtype = helper.tensor_dtype_to_np_dtype(weight.tensor.data_type)
        name = self._constants.add(table.astype(dtype), f"{node_name(node)}.border")
        made = []
        for axis, places in enumerate(kinds.places, start=2):
            index = self._constants.add(places, f"{node_name(node)}.places")
            output = self._constants.fresh(f"{node_name(node)}.border")
            made.append(helper.make_node("Gather", [name, index], [output], output, axis=axis))
            name = output
            self._constants.producers[output] = made[-1]
        self._insert_behind(node, name, made)

    def _add_vector(self, node: onnx.NodeProto, values: np.ndarray, weight: OnnxWeight) -> None:
        dtype = helper.tensor_dtype_to_np_dtype(weight.tensor.data_type)
        name = node.input[2] if len(node.input) > 2 else ""
        if name and weight.scale is not None:
            self._add_integers(node, values)
        elif name:
            old = self._constants.value(name)
            node.input[2] = self._constants.add((old + values).astype(dtype), name)
        elif node.op_type in ("Conv", "Gemm"):
            made = self._constants.add(values.astype(dtype), f"{node_name(node)}.bias")
            del node.input[2:]
            node.input.append(made)
        elif (behind := self._added_behind(node, len(values))) is not None:
            adding, index = behind
            old = self._constants.value(adding.input[index])
            made = self._constants.add((old + values).astype(dtype), adding.input[index])
            adding.input[index] = made
        else:
            made = self._constants.add(values.astype(dtype), f"{node_name(node)}.bias")
            self._insert_behind(node, made, [])

    def _added_behind(self, node: onnx.NodeProto, n: int) -> tuple[onnx.NodeProto, int] | None:
        """The Add of a vector [n] that alone reads a product, and which of its inputs that is.

        Products that have no bias of their own have one there, and with one more Add behind them
        kernels would finish them in two steps.
        """
        output = node.output[0]
        readers = [one for one in self._graph.node if output in one.input]
        if len(readers) != 1 or any(value.name == output for value in self._graph.output):
            return None
        (adding,) = readers
        if adding.op_type != "Add" or list(adding.input).count(output) != 1:
            return None
        index = 1 - list(adding.input).index(output)
        tensor = self._constants.tensors.get(adding.input[index])
        return (adding, index) if tensor is not None and list(tensor.dims) == [n] else None

    def _integers(self, name: str) -> bool:
        """Whether a bias is a vector of int32 under scales."""
        found = self._constants.dequantisation(name)
        if found is None:
            return False
        tensor = self._constants.tensors[found.input[0]]
        return tensor.data_type == onnx.TensorProto.INT32 and len(tensor.dims) == 1

    def _add_integers(self, node: onnx.NodeProto, values: np.ndarray) -> None:
        """Steps of a bias are those of the products: no rounding but float's is lost."""
        name = node.input[2]
        self._constants.take(node, 2, np.ones(len(values), bool), 0)  # a bias of its own
        own = self._constants.dequantisation(node.input[2])
        tensors = self._constants.tensors
        integers, scale = (numpy_helper.to_array(tensors[one]) for one in own.input[:2])
        steps = np.rint(integers + values / scale.astype(np.float64))
        clipped = np.clip(steps, -_LARGEST, _LARGEST).astype(np.int32)
        own.input[0] = self._constants.add(clipped, name)

    def _insert_behind(
        self, node: onnx.NodeProto, constant: str, before: list[onnx.NodeProto]
    ) -> None:
        """Add a constant tensor to a node's output, which keeps its name."""
        place = next(i for i, one in enumerate(self._graph.node) if one == node)
        output = node.output[0]
        node.output[0] = self._constants.fresh(output)
        added = helper.make_node(
            "Add", [node.output[0], constant], [output], f"{node_name(node)}.added"
        )
        for offset, one in enumerate([*before, added], start=1):
            self._graph.node.insert(place + offset, one)
