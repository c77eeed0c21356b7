"""Requantises an int8 QDQ model to 4 bits, to test and time 4-bit kernels on whole networks.

The ranges are those of the 8-bit model, not calibrated again, so that accuracy is lost as with any
rounding to 4 bits after training.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx
import onnx.version_converter
from ml_dtypes import int4, uint4
from onnx import numpy_helper

from autoq.errors import ModelError
from autoq.quantization.quantize import FOUR_BIT_IR_VERSION, FOUR_BIT_OPSET

_PRODUCTS = ("Conv", "Gemm", "MatMul")
_STEP_RATIO = 17
"""255 steps of 8 bits span what 15 steps of 4 bits span."""


def to_four_bits(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` with int4 weights (symmetric, by channel) and int4 or uint4 activations.

    As is usual, the first product and the last one stay in 8 bits, with what the first one reads
    and the last one reads and writes. Biases keep their values, in steps of the new scales.
    Raises ModelError where no product between those has quantised weights and inputs.
    """
    made = onnx.version_converter.convert_version(model, FOUR_BIT_OPSET)
    made.ir_version = FOUR_BIT_IR_VERSION
    del made.graph.value_info[:]  # dtypes of the 8-bit tensors
    graph = _Graph(made.graph)
    ends = [product for product in graph.products if graph.is_end(product)]
    inner = [product for product in graph.products if product not in ends]
    if not inner:
        raise ModelError(
            f"graph {made.graph.name!r}: no product between quantised ones; give an int8 QDQ model"
        )
    kept = {product.x for product in ends}
    outputs = {graph.scheme(output.name) for output in made.graph.output}
    for scheme in graph.schemes() - kept - outputs:
        graph.requantise_activation(scheme)
    for product in inner:
        graph.requantise_product(product)
    return made


def holds_four_bits(model: onnx.ModelProto) -> bool:
    """Whether a constant of `model` is of 4 bits."""
    kinds = (onnx.TensorProto.INT4, onnx.TensorProto.UINT4)
    return any(tensor.data_type in kinds for tensor in model.graph.initializer)


class _Scheme(NamedTuple):
    """Names of the scale and the zero point of an activation."""

    scale: str
    zero_point: str


class _Product(NamedTuple):
    """A convolution or matrix product, the scheme of its input, its weights' dequantisation."""

    node: onnx.NodeProto
    x: _Scheme
    weight: onnx.NodeProto


class _Graph:
    """A QDQ graph whose constants are replaced in place."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.producers = {name: node for node in graph.node for name in node.output}
        self.readers: dict[str, list[onnx.NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
        self.tensors = {tensor.name: tensor for tensor in graph.initializer}
        self.old = {name: numpy_helper.to_array(tensor) for name, tensor in self.tensors.items()}
        self.products = []
        for node in graph.node:
            weight = self._dequantise(node.input[1]) if node.op_type in _PRODUCTS else None
            x = self.scheme(node.input[0]) if node.op_type in _PRODUCTS else None
            if weight is not None and x is not None and weight.input[0] in self.tensors:
                self.products.append(_Product(node, x, weight))

    def _dequantise(self, name: str) -> onnx.NodeProto | None:
        node = self.producers.get(name)
        return node if node is not None and node.op_type == "DequantizeLinear" else None

    def scheme(self, name: str) -> _Scheme | None:
        """That of a dequantised activation, None for any other tensor."""
        node = self._dequantise(name)
        if node is None or node.input[0] in self.tensors:
            return None
        return _Scheme(node.input[1], node.input[2])

    def schemes(self) -> set[_Scheme]:
        """Those of all activations."""
        found = {self.scheme(name) for name in self.producers}
        return {scheme for scheme in found if scheme is not None}

    def is_end(self, product: _Product) -> bool:
        """Whether it reads a quantised input of the graph, or makes an output of it."""
        name = product.node.input[0]
        while name in self.producers and self.producers[name].op_type not in _PRODUCTS:
            name = self.producers[name].input[0]
        if name not in self.producers:
            return True
        name = product.node.output[0]
        while len(readers := self.readers.get(name, [])) == 1:
            if readers[0].op_type in _PRODUCTS:
                return False
            name = readers[0].output[0]
        return not readers

    def requantise_activation(self, scheme: _Scheme) -> None:
        """15 steps over the range of 255: uint8 to uint4, int8 to int4."""
        old = self.old[scheme.zero_point]
        least, dtype, start = (0, uint4, 0) if old.dtype == np.uint8 else (-128, int4, -8)
        moved = np.rint((old.astype(np.float64) - least) / _STEP_RATIO) + start
        self._replace(scheme.scale, self.old[scheme.scale] * np.float32(_STEP_RATIO))
        self._replace(scheme.zero_point, moved.astype(dtype))

    def requantise_product(self, product: _Product) -> None:
        """Weights to int4, the bias to steps of the new products."""
        weight, scale, zero_point = product.weight.input[:3]
        largest = np.abs(self.old[weight].astype(np.int32)).reshape(len(self.old[weight]), -1)
        ratio = np.maximum(largest.max(axis=1), 1) / np.float32(7)
        shape = (-1,) + (1,) * (self.old[weight].ndim - 1)
        integers = np.rint(self.old[weight] / ratio.reshape(shape))
        scales = (self.old[scale] * ratio).astype(np.float32)
        self._replace(weight, integers.astype(int4))
        self._replace(scale, scales)
        self._replace(zero_point, np.zeros(scales.shape, int4))
        bias = self._dequantise(product.node.input[2]) if len(product.node.input) > 2 else None
        if bias is not None:
            steps = numpy_helper.to_array(self.tensors[product.x.scale]) * scales
            real = self.old[bias.input[0]] * self.old[bias.input[1]].astype(np.float64)
            self._replace(bias.input[0], np.rint(real / steps).astype(np.int32))
            self._replace(bias.input[1], steps)

    def _replace(self, name: str, value: np.ndarray) -> None:
        self.tensors[name].CopyFrom(numpy_helper.from_array(np.asarray(value), name))
