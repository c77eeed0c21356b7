"""A convolution of float32 as one to three of integers, with the residuals of its factors.

It is written in the operations of a quantised model, of which the passes behind make kernels as of
any other. An image has one scale, since the kernels of convolutions multiply their sums by numbers
that a channel has; filters have one each.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.graph.ir import Graph, Operation
from autoq.graph.rewrite import add_tensor, fresh_name
from autoq.graph.shapes import infer_shape
from autoq.residual.setting import Setting
from autoq.templates.oracle.residual_quantisation import (
    LEAST_LARGEST,
    largest_integer,
    quantise,
    residual_unit,
)

_LONGEST_ROW = 4096
"""Pixels that are reduced in one go."""


@dataclass
class QuantisedImages:
    """What is known of an input of convolutions [n, c, h, w], by the names of tensors.

    largest: the largest magnitude of each image, float32 [n, 1, 1, 1], never 0. values, residual:
    whole numbers in float32; the second one is made where a convolution asks for it.
    """

    largest: str
    values: str
    residual: str = ""


def residual_convolution(
    graph: Graph,
    node: Operation,
    matrix: np.ndarray,
    bias: np.ndarray | None,
    setting: Setting,
    images: dict[str, QuantisedImages],
) -> list[Operation]:
    """Operations that compute a Conv under a setting "none", "full" or one of `ONE_SIDED`.

    matrix: its filters, float32 [k, taps * c], tap by tap; bias: float32 [k]. The sum of the
    products is multiplied by the image's scale, then the bias is added. images: of the inputs of
    earlier convolutions; the Conv's own is added.
    """
    write, x = _Writer(graph, node), node.inputs[0]
    filters = quantise(matrix, setting.bits, axis=1)
    most = np.float32(largest_integer(setting.bits))
    if x not in images:
        largest = write.largest(x)
        images[x] = QuantisedImages(largest, write.integers(write.over(largest, most, x)))
    image = images[x]
    scales = np.where(filters.scale == 0, np.float32(1), filters.scale).reshape(-1)
    y = write.convolve(image.values, filters.values, scales, str(setting))
    unit, corrections = scales * residual_unit(setting.bits), []
    if setting.correction in ("full", "weights"):
        corrections.append(write.convolve(image.values, filters.residual, unit))
    if setting.correction in ("full", "activations"):
        if not image.residual:
            whole = write.scaled(image.largest, most, image.values)
            rest = write.emit("Sub", [x, whole])
            image.residual = write.integers(write.over(image.largest, 2 * most * most, rest))
        corrections.append(write.convolve(image.residual, filters.values, unit))
    if corrections:
        y = write.emit("Add", [y, functools.reduce(write.add, corrections)])
    y = write.scaled(image.largest, most, y)
    if bias is not None:
        y = write.emit("Add", [y, write.constant(bias.reshape(1, -1, 1, 1))])
    write.operations[-1].output = node.output
    return write.operations


class _Writer:
    """Operations in the place of a Conv, over new tensors."""

    def __init__(self, graph: Graph, node: Operation) -> None:
        self._graph, self._node = graph, node
        self.operations: list[Operation] = []

    def constant(self, value: Any) -> str:
        name = fresh_name(self._graph, f"{self._node.output}/constant")
        self._graph.constants[name] = np.asarray(value)
        return name

    def number(self, value: np.float32) -> str:
        return self.constant(np.float32(value))

    def emit(self, op: str, inputs: Sequence[str], dtype: str = "float32", **more: Any) -> str:
        """An operation with the attributes `more`, and the name of its result."""
        shape = infer_shape(op, [self._graph.shape(name) for name in inputs], more)
        output = add_tensor(self._graph, f"{self._node.output}/{op}", shape, dtype)
        covers = self._node.covers
        self.operations.append(Operation(op, self._node.name, tuple(inputs), output, more, covers))
        return output

    def largest(self, x: str) -> str:
        """The largest magnitude of each image [n, c, h, w], float32 [n, 1, 1, 1], never 0."""
        _, _, rows, columns = self._graph.shape(x)
        pixels = ((2, 3),) if rows * columns <= _LONGEST_ROW else ((3,), (2,))
        x = self.emit("Abs", [x])
        for axes in ((1,), *pixels):
            x = self.emit("ReduceMax", [x], axes=axes)
        return self.emit("Max", [x, self.number(LEAST_LARGEST)])

    def add(self, first: str, second: str) -> str:
        return self.emit("Add", [first, second])

    def over(self, largest: str, number: np.float32, x: str) -> str:
        """x times a number over the largest magnitude: a quotient of its own for each kernel."""
        return self.emit("Mul", [x, self.emit("Div", [self.number(number), largest])])

    def scaled(self, largest: str, number: np.float32, x: str) -> str:
        """x times the largest magnitude over a number."""
        return self.emit("Mul", [x, self.emit("Div", [largest, self.number(number)])])

    def integers(self, x: str) -> str:
        """The tensor rounded to int8 and back."""
        return self._dequantised(self.emit("QuantizeLinear", [x], dtype="int8", **_steps()))

    def _dequantised(self, name: str, scale: np.ndarray | None = None) -> str:
        return self.emit("DequantizeLinear", [name], **_steps(scale))

    def convolve(self, x: str, filters: np.ndarray, scales: np.ndarray, precision: str = "") -> str:
        """Integers convolved with filters, int8 [k, taps * c], as real numbers of their scales."""
        k, c, r, s = self._graph.shape(self._node.inputs[1])
        whole = np.ascontiguousarray(filters.reshape(k, r, s, c).transpose(0, 3, 1, 2))
        weight = self._dequantised(self.constant(whole), scales)
        return self.emit("Conv", [x, weight], **self._node.attributes, precision=precision)


def _steps(scale: np.ndarray | None = None) -> dict[str, Any]:
    """Attributes of integers without a zero point, with scales of axis 0, or 1 for all."""
    if scale is None:
        return {"scale": np.array(1, np.float32), "zero_point": np.array(0, np.int32), "axis": None}
    return {"scale": scale, "zero_point": np.zeros(len(scale), np.int32), "axis": 0}
