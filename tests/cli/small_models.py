"""Small ONNX models for the command line's tests, sound ones and hostile ones."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS, IMAGE, CLASSES = 16, 8, 10


def small_network(batch: int | str = 1, image: int | str = IMAGE) -> onnx.ModelProto:
    """Convolution, ReLU, global average and a linear layer, float32 with random weights."""
    rng = np.random.default_rng(0)
    weights = {
        "conv.weight": rng.normal(0, 0.1, (32, CHANNELS, 3, 3)),
        "conv.bias": rng.normal(0, 0.1, 32),
        "fc.weight": rng.normal(0, 0.2, (CLASSES, 32)),
        "fc.bias": rng.normal(0, 0.1, CLASSES),
    }
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["a"], "conv", pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("GlobalAveragePool", ["b"], ["c"], "pool"),
        helper.make_node("Flatten", ["c"], ["d"], "flatten"),
        helper.make_node("Gemm", ["d", "fc.weight", "fc.bias"], ["y"], "fc", transB=1),
    ]
    return _model(nodes, [batch, CHANNELS, image, image], [batch, CLASSES], weights)


def two_products(rows: int, depth: int) -> onnx.ModelProto:
    """Two MatMuls, weights [depth, depth], with a ReLU between; x and y are [rows, depth]."""
    rng = np.random.default_rng(8)
    weights = {name: rng.normal(0, 0.1, (depth, depth)) for name in ("a", "b")}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["p"], "first"),
        helper.make_node("Relu", ["p"], ["q"], "relu"),
        helper.make_node("MatMul", ["q", "b"], ["y"], "second"),
    ]
    return _model(nodes, [rows, depth], [rows, depth], weights)


def unary(operator: str, opset: int = 17, domain: str = "") -> onnx.ModelProto:
    """One operator with one input and one output of shape [1, 16]."""
    node = helper.make_node(operator, ["x"], ["y"], "odd", domain=domain)
    return _model([node], [1, 16], [1, 16], {}, opset)


def of_type(model: onnx.ModelProto, dtype: int) -> onnx.ModelProto:
    """The model with inputs and outputs of another type."""
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = dtype
    return model


def external(path: Path, location: str, data: bytes | None) -> Path:
    """Writes the network to `path` with its first weight in the file `location`.

    data: what that file then holds, None for no such file.
    """
    model = small_network()
    tensor = model.graph.initializer[0]
    raw = numpy_helper.to_array(tensor).tobytes()
    tensor.ClearField("raw_data")
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": "0", "length": str(len(raw))}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    path.write_bytes(model.SerializeToString())
    if data is not None:
        (path.parent / location).write_bytes(data)
    return path


def _model(
    nodes: Sequence[onnx.NodeProto],
    x_shape: Sequence[int | str],
    y_shape: Sequence[int | str],
    weights: dict[str, np.ndarray],
    opset: int = 17,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x_shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y_shape)],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
