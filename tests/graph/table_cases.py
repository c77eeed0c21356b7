"""Small quantised models of element-wise functions, as onnxruntime's quantiser writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

TYPES = {
    "int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4, "float32": TensorProto.FLOAT,
}  # fmt: skip


class QdqModel:
    """Nodes and initializers of a quantised model under construction; opset 21."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """The output of a new node."""
        output = f"{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def constant(self, value: Any, dtype: str = "float32") -> str:
        """A new initializer."""
        name = f"constant{len(self.initializers)}"
        values = np.asarray(value)
        tensor = helper.make_tensor(name, TYPES[dtype], values.shape, values.reshape(-1).tolist())
        if dtype == "float32":
            tensor = numpy_helper.from_array(values.astype(np.float32), name)
        self.initializers.append(tensor)
        return name

    def quantise(self, x: str, scale: float, zero_point: int, dtype: str) -> str:
        """The integers of a tensor of floats."""
        scheme = self.constant(scale), self.constant(zero_point, dtype)
        return self.node("QuantizeLinear", x, *scheme)

    def dequantise(self, x: str, scale: float, zero_point: int, dtype: str) -> str:
        """The floats of a tensor of integers."""
        scheme = self.constant(scale), self.constant(zero_point, dtype)
        return self.node("DequantizeLinear", x, *scheme)

    def through(self, x: str, scale: float, zero_point: int, dtype: str) -> str:
        """A tensor of floats quantised and dequantised."""
        integers = self.quantise(x, scale, zero_point, dtype)
        return self.dequantise(integers, scale, zero_point, dtype)

    def finish(
        self, inputs: dict[str, tuple[str, list[int]]], outputs: dict[str, str]
    ) -> onnx.ModelProto:
        """The model of inputs by name, (dtype, shape), and dtypes of outputs by name."""
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "table",
            [value(name, TYPES[dtype], shape) for name, (dtype, shape) in inputs.items()],
            [value(name, TYPES[dtype], None) for name, dtype in outputs.items()],
            self.initializers,
        )
        opsets = [helper.make_opsetid("", 21)]
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=opsets, ir_version=10)
        )


def by_onnxruntime(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of onnxruntime without any optimisation."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, ["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


Function = Callable[[QdqModel, str], str]


def silu(model: QdqModel, x: str) -> str:
    """x * sigmoid(x), quantised behind the sigmoid."""
    gate = model.through(model.node("Sigmoid", x), 1 / 255, 0, "uint8")
    return model.node("Mul", x, gate)


def gelu(model: QdqModel, x: str) -> str:
    """x * (1 + erf(x / sqrt(2))) / 2."""
    erf = model.node("Erf", model.node("Div", x, model.constant(2**0.5)))
    product = model.node("Mul", x, model.node("Add", erf, model.constant(1.0)))
    return model.node("Mul", product, model.constant(0.5))


def unary(op: str, **attributes: Any) -> Function:
    """A node of one input."""
    return lambda model, x: model.node(op, x, **attributes)


def binary(op: str, value: float, first: bool = False) -> Function:
    """A node of an input and a constant, which is its first one with `first`."""

    def build(model: QdqModel, x: str) -> str:
        pair = (x, model.constant(value))
        return model.node(op, *(pair[::-1] if first else pair))

    return build


FUNCTIONS: dict[str, Function] = {
    "SiLU": silu,
    "GELU": gelu,
    "square": binary("Pow", 2.0),
    "root": binary("Pow", 0.5),
    "power": binary("Pow", 2.3),
    "inverse": binary("Pow", -1.0),
    "from 1": binary("Sub", 1.0, first=True),
    "third": binary("Div", 3.0),
    "Min": binary("Min", 0.3),
    "PRelu": binary("PRelu", 0.2),
    "LeakyRelu": unary("LeakyRelu", alpha=0.1),
    "Elu": unary("Elu", alpha=1.3),
    **{
        op: unary(op)
        for op in (
            "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Exp", "Log", "Sqrt", "Neg", "Abs",
            "Reciprocal", "Erf", "Floor", "Ceil", "Round", "Softplus",
        )
    },
}  # fmt: skip
"""Functions of one tensor, by name."""
