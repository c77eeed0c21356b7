"""Makers of ONNX models from a few nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

MICROSOFT = "com.microsoft"


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[Sequence[int | str], str]],
    constants: Mapping[str, np.ndarray] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
) -> onnx.ModelProto:
    """A model over `nodes`; output types are left to shape inference."""

    def value(name: str, shape: Sequence[int | str], dtype: str) -> onnx.ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, kind, shape)

    graph = helper.make_graph(
        list(nodes),
        "case",
        [value(name, shape, dtype) for name, (shape, dtype) in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    version = 8 if opset < 21 else 10  # 4-bit tensors came with opset 21
    made = helper.make_model(graph, opset_imports=opsets, ir_version=version)
    inferred = onnx.shape_inference.infer_shapes(made)
    for output, known in zip(made.graph.output, inferred.graph.output, strict=True):
        output.CopyFrom(known)
    return made


def node(op: str, inputs: str, outputs: str = "y", domain: str = "", **attributes: object):
    """A node from space-separated names; "-" stands for an input left out."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(
        op, names, outputs.split(), name=f"{op}_{outputs}", domain=domain, **attributes
    )


def with_known_output(made: onnx.ModelProto, shape: tuple[int, ...], dtype: str):
    """onnx infers no types for com.microsoft operators."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    name = made.graph.output[0].name
    made.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info(name, kind, shape))
    return made


_RNG = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape, np.float32)
