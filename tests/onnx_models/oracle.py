"""onnxruntime as the oracle of a model: its outputs, random inputs, and the size of a step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from autoq.runtime.cpu.features import host_features

_INTEGER_PRODUCTS = {"QLinearConv", "ConvInteger", "QLinearMatMul", "MatMulInteger", "QGemm"}


def _saturates(path: str | Path) -> bool:
    """Whether onnxruntime's integer products of the model are not exact on this CPU.

    Without VNNI it adds two products of uint8 by int8 in 16 bits.
    """
    if {"avx512_vnni", "avx_vnni"} & host_features():
        return False
    graph = onnx.load(path, load_external_data=False).graph
    types = {tensor.data_type for tensor in graph.initializer}
    types |= {value.type.tensor_type.elem_type for value in graph.input}
    products = any(node.op_type in _INTEGER_PRODUCTS for node in graph.node)
    return products and onnx.TensorProto.UINT8 in types


def run_onnxruntime(path: str | Path, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of a model by name, with every graph optimisation of onnxruntime off.

    Where its integer products would not be exact then, int8 weights become uint8 ones, which is
    among the extended optimisations.
    """
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_DISABLE_ALL
    if _saturates(path):
        options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 3
    options.intra_op_num_threads = 1  # others would wait for work in loops, beside other tests
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(str(path), options, providers=providers)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def random_feeds(path: str | Path, seed: int = 1) -> dict[str, np.ndarray]:
    """Random inputs of a model: normal numbers, or integers over the dtype's range.

    Those of int64 are from 0 to 3.
    """
    model = onnx.load(path, load_external_data=False)
    constants = {tensor.name for tensor in model.graph.initializer}
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        if dtype.kind == "f":
            feeds[value.name] = rng.standard_normal(shape).astype(dtype)
        elif dtype.kind == "b":
            feeds[value.name] = rng.random(shape) < 0.5
        elif dtype == np.int64:  # mostly places
            feeds[value.name] = rng.integers(0, 4, shape)
        else:
            limits = np.iinfo(dtype)
            feeds[value.name] = rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    return feeds


def output_step(path: str | Path) -> dict[str, float]:
    """For each output of a quantised model, the size of one quantisation step.

    1 for integer outputs, the scale for an output that a DequantizeLinear writes; an output of
    another operator is missing.
    """
    model = onnx.load(path)
    scales = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    steps = {}
    for node in model.graph.node:
        for output in model.graph.output:
            if output.name not in node.output:
                continue
            if node.op_type == "DequantizeLinear":
                steps[output.name] = float(scales[node.input[1]])
            elif output.type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
                steps[output.name] = 1.0
    return steps
