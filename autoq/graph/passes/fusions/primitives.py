"""From operations of the semantic graph to the primitives of a fusion."""

from __future__ import annotations

from typing import Any

import numpy as np

from autoq.graph.constants import along_axis
from autoq.graph.fused import Bounds, Scheme
from autoq.graph.ir import Graph, Operation, Primitive


class PrimitiveWriter:
    """Primitives under construction; their indices are negative until all constants are known."""

    def __init__(self, inputs: int, constants: list[np.ndarray]) -> None:
        self._inputs = inputs
        self._constants = constants
        self._primitives: list[tuple[str, list[int], str, dict[str, Any]]] = []

    def write(self, graph: Graph, node: Operation, arguments: list[int]) -> int:
        """Append a node's primitives and return the index of its result."""
        dtype = graph.dtype(node.output)
        attributes = dict(node.attributes)
        if node.op == "QuantizeLinear":
            scheme = Scheme.of(node, dtype)
            low, high = scheme.bounds(Bounds())
            return self._add("quantize", arguments, dtype, {
                "scale": float(scheme.scale), "zero_point": scheme.zero_point,
                "low": low, "high": high,
            })  # fmt: skip
        if node.op == "DequantizeLinear":
            return self._dequantize(graph, node, arguments[0])
        if node.op in ("Take", "Interpolate"):
            return self._selection(node, arguments[0], dtype)
        if node.op == "LRN":
            attributes["axis"] = 1
        return self._add(node.op, arguments, dtype, attributes)

    def _dequantize(self, graph: Graph, node: Operation, argument: int) -> int:
        axis, scale = node.attributes["axis"], node.attributes["scale"]
        zero_point = node.attributes["zero_point"]
        if axis is None:
            return self._add("dequantize", [argument], "float32", {
                "scale": float(scale), "zero_point": int(zero_point),
            })  # fmt: skip
        rank = len(graph.shape(node.output))
        x = self._add("Cast", [argument], "float32", {})
        if np.any(zero_point):
            offset = self._constant(along_axis(zero_point.astype(np.float32), axis, rank))
            x = self._add("Sub", [x, offset], "float32", {})
        return self._add("Mul", [x, self._constant(along_axis(scale, axis, rank))], "float32", {})

    def _selection(self, node: Operation, argument: int, dtype: str) -> int:
        """What takes elements at constant places, which become arguments, and weights theirs."""
        places = [array.astype(np.int32) for array in node.attributes["indices"]]
        columns = [places, node.attributes["weights"]] if node.op == "Interpolate" else [places]
        arrays = [array for of_axis in zip(*columns, strict=True) for array in of_axis]
        arguments = [argument, *(self._constant(array) for array in arrays)]
        return self._add(node.op, arguments, dtype, {"axes": tuple(node.attributes["axes"])})

    def _constant(self, value: np.ndarray) -> int:
        self._constants.append(value)
        return self._inputs + len(self._constants) - 1

    def _add(self, op: str, arguments: list[int], dtype: str, attributes: dict[str, Any]) -> int:
        self._primitives.append((op, arguments, dtype, attributes))
        return -len(self._primitives)

    def finish(self) -> tuple[tuple[Primitive, ...], tuple[np.ndarray, ...]]:
        """All primitives with final indices, and the constants."""
        first = self._inputs + len(self._constants)
        primitives = tuple(
            Primitive(
                op,
                tuple(a if a >= 0 else first - a - 1 for a in arguments),
                dtype,
                tuple(sorted(attributes.items())),
            )
            for op, arguments, dtype, attributes in self._primitives
        )
        return primitives, tuple(self._constants)
