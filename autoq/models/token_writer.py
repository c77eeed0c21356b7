"""What networks of tokens `[batch, length, width]` are written with."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import helper, numpy_helper

from autoq.models.writer import ModelWriter


class TokenWriter(ModelWriter):
    """Nodes and initializers of a network of tokens under construction."""

    def integers(self, values: list[int], name: str) -> str:
        """An int64 initializer, a shape for Reshape; its name."""
        return self.constant(np.array(values, np.int64), name)

    def linear(self, x: str, inputs: int, outputs: int, name: str) -> str:
        """Fully connected layer of each token: MatMul and Add, as torch's exporter writes it."""
        weight = self.weight((inputs, outputs), inputs, f"{name}.weight", gain=1.0)
        bias = self.constant(self.rng.normal(0, 0.1, outputs).astype(np.float32), f"{name}.bias")
        return self.node("Add", [bias, self.node("MatMul", [x, weight], name)], f"{name}.add_bias")

    def gelu(self, x: str, name: str) -> str:
        """GELU by the error function: `x * (1 + erf(x / sqrt(2))) / 2`."""
        root, one, half = (
            self.constant(np.array(value, np.float32), f"{name}.{which}")
            for which, value in (("root", math.sqrt(2)), ("one", 1.0), ("half", 0.5))
        )
        y = self.node("Div", [x, root], f"{name}.scaled")
        y = self.node("Add", [self.node("Erf", [y], f"{name}.erf"), one], f"{name}.plus_one")
        return self.node("Mul", [self.node("Mul", [x, y], f"{name}.product"), half], name)

    def layer_norm(self, x: str, width: int, name: str) -> str:
        """Layer normalisation of each token, spelled out."""
        factor = self.constant(
            self.rng.uniform(0.5, 1.5, width).astype(np.float32), f"{name}.factor"
        )
        offset = self.constant(self.rng.normal(0, 0.1, width).astype(np.float32), f"{name}.offset")
        two = self.constant(np.array(2.0, np.float32), f"{name}.two")
        epsilon = self.constant(np.array(1e-5, np.float32), f"{name}.epsilon")
        mean = self.node("ReduceMean", [x], f"{name}.mean", axes=[-1], keepdims=1)
        centred = self.node("Sub", [x, mean], f"{name}.centred")
        squares = self.node("Pow", [centred, two], f"{name}.squares")
        variance = self.node("ReduceMean", [squares], f"{name}.variance", axes=[-1], keepdims=1)
        shifted = self.node("Add", [variance, epsilon], f"{name}.shifted")
        y = self.node(
            "Div", [centred, self.node("Sqrt", [shifted], f"{name}.root")], f"{name}.quotient"
        )
        y = self.node("Mul", [y, factor], f"{name}.scaled")
        return self.node("Add", [y, offset], name)

    def attention(
        self, x: str, shape: tuple[int, int, int], heads: int, name: str, mask: str = ""
    ) -> str:
        """Self-attention of all tokens `[batch, length, width]`, its output projected.

        mask: the name of what is added to scores; "" for nothing.
        """
        batch, length, width = shape
        each = width // heads
        split = self.integers([batch, length, heads, each], f"{name}.split")

        def part(kind: str, order: list[int]) -> str:
            y = self.linear(x, width, width, f"{name}.{kind}")
            y = self.node("Reshape", [y, split], f"{name}.{kind}.heads")
            return self.node("Transpose", [y], f"{name}.{kind}.transpose", perm=order)

        query, key = part("query", [0, 2, 1, 3]), part("key", [0, 2, 3, 1])
        scores = self.node("MatMul", [query, key], f"{name}.scores")
        root = self.constant(np.array(each**0.5, np.float32), f"{name}.root")
        scores = self.node("Div", [scores, root], f"{name}.scaled")
        if mask:
            scores = self.node("Add", [scores, mask], f"{name}.masked")
        shares = self.node("Softmax", [scores], f"{name}.softmax", axis=-1)
        y = self.node("MatMul", [shares, part("value", [0, 2, 1, 3])], f"{name}.context")
        y = self.node("Transpose", [y], f"{name}.context.transpose", perm=[0, 2, 1, 3])
        whole = self.integers([batch, length, width], f"{name}.whole")
        y = self.node("Reshape", [y, whole], f"{name}.context.whole")
        return self.linear(y, width, width, f"{name}.output")

    def tokens_model(
        self, name: str, y: str, input_shape: tuple[int, ...], output_shape: tuple[int, ...],
        tokens: bool = False,
    ) -> onnx.ModelProto:  # fmt: skip
        """The model from `input`, float32 or int64 tokens, to float32 `output`: tensor `y`."""
        self.nodes.append(helper.make_node("Identity", [y], ["output"], name="output"))
        value = helper.make_tensor_value_info
        kind = onnx.TensorProto.INT64 if tokens else onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            name,
            [value("input", kind, list(input_shape))],
            [value("output", onnx.TensorProto.FLOAT, list(output_shape))],
            self.initializers,
        )
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="autoq")


def in_float16(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every float32 initialiser, input and output as float16."""
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            halves = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(halves, tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    return model
