"""Changes of what an ONNX model holds beside its nodes: initializers, inputs, outputs, versions."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from fuzz.drawing import Rng, pick, tensor_names
from fuzz.mutations.words import NUMBERS, SIZES, TEXTS


def change_tensor(rng: Rng, model: onnx.ModelProto) -> None:
    """Another value, shape or dtype of an initializer."""
    if not model.graph.initializer:
        return
    tensor = pick(rng, model.graph.initializer)
    kind = int(rng.integers(5))
    if kind == 0 and len(tensor.dims):
        tensor.dims[int(rng.integers(len(tensor.dims)))] = pick(rng, SIZES)
        return
    if kind == 1:
        tensor.data_type = int(rng.integers(0, 28))
        return
    try:
        value = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, RuntimeError, onnx.checker.ValidationError):
        return  # an earlier change
    if kind == 2:
        dtype = pick(
            rng, ("float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool")
        )
        value = value.astype(dtype)
    elif kind == 3 and value.size:
        flat = np.array(value).reshape(-1)
        odd = pick(rng, NUMBERS) if value.dtype.kind == "f" else pick(rng, SIZES)
        with np.errstate(all="ignore"):
            flat[int(rng.integers(flat.size))] = np.asarray(odd).astype(flat.dtype)
        value = flat.reshape(value.shape)
    else:
        shapes = [(value.size,), (1, *value.shape), value.shape[::-1], (*value.shape, 1)]
        value = np.resize(value, pick(rng, [*shapes, (), (0,), (1,)]))
    tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))


def make_external(rng: Rng, model: onnx.ModelProto) -> None:
    """An initializer that says that its bytes lie elsewhere."""
    if model.graph.initializer:
        tensor = pick(rng, model.graph.initializer)
        tensor.data_location = TensorProto.EXTERNAL
        for key in ("location", "offset", "length"):
            if rng.random() < 0.8:
                text = pick(
                    rng, (*TEXTS, "model.onnx", ".", "..", "/etc/hostname", *map(str, SIZES))
                )
                tensor.external_data.add(key=key, value=text)


def change_port(rng: Rng, model: onnx.ModelProto) -> None:
    """Another shape or dtype of an input, or another set of inputs and outputs."""
    graph = model.graph
    kind = int(rng.integers(6))
    if kind <= 2 and graph.input:
        tensor = pick(rng, graph.input).type.tensor_type
        if len(tensor.shape.dim) and kind < 2:
            pick(rng, tensor.shape.dim).dim_value = pick(rng, SIZES)
        elif kind == 2:
            tensor.elem_type = int(rng.integers(0, 28))
    elif kind == 3:
        ports = pick(rng, (graph.input, graph.output))
        if len(ports):
            ports.append(pick(rng, ports))
    elif kind == 4:
        graph.output.add().name = pick(rng, tensor_names(model))
    else:
        ports = pick(rng, (graph.input, graph.output))
        if len(ports):
            del ports[int(rng.integers(len(ports)))]


def expose(rng: Rng, model: onnx.ModelProto) -> None:
    """A tensor in the middle becomes an output."""
    names = [name for node in model.graph.node for name in node.output if name]
    if names:
        model.graph.output.add().name = pick(rng, names)


def change_versions(rng: Rng, model: onnx.ModelProto) -> None:
    """Another opset or IR version."""
    if rng.random() < 0.3:
        model.ir_version = int(rng.integers(0, 14))
    elif model.opset_import:
        pick(rng, model.opset_import).version = int(rng.integers(5, 25))
