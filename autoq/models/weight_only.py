"""Forms of a float32 model whose weights take less memory: 4 bits in groups, and float16."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

GROUP = 32
"""Weights that share a scale in MatMulNBits."""


def to_matmul_nbits(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model`, changed: products with constants are MatMulNBits of 4 bits, symmetric by group."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for index, node in enumerate(list(model.graph.node)):
        if node.op_type != "MatMul" or node.input[1] not in constants:
            continue
        tensor = constants[node.input[1]]
        weight = numpy_helper.to_array(tensor)
        k, n = weight.shape
        groups = np.ascontiguousarray(weight.T).reshape(n, k // GROUP, GROUP)
        scale = np.abs(groups).max(-1) / 7
        codes = (np.rint(groups / scale[..., None]) + 8).astype(np.uint8)
        packed = codes[..., ::2] | codes[..., 1::2] << 4
        model.graph.initializer.remove(tensor)
        model.graph.initializer.extend([
            numpy_helper.from_array(packed, tensor.name),
            numpy_helper.from_array(scale.reshape(-1), f"{tensor.name}.scale"),
        ])  # fmt: skip
        product = helper.make_node(
            "MatMulNBits", [node.input[0], tensor.name, f"{tensor.name}.scale"], node.output,
            node.name, domain="com.microsoft", bits=4, K=k, N=n, block_size=GROUP,
        )  # fmt: skip
        model.graph.node.remove(node)
        model.graph.node.insert(index, product)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def to_float16(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model`, changed: its float32 constants, inputs and outputs are float16."""
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            half = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(half, tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    return model
