"""A small model with inputs and outputs of three types, compiled for the CPU and run once."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sound_artifact import artifact

from autoq import Session, compile
from autoq.runtime.artifact import write_artifact

SHAPES = {"image": (1, 6, 8, 8), "codes": (2, 16), "nibbles": (1, 32)}


@dataclass(frozen=True)
class Compiled:
    """An artifact's path, what it is fed and what it answers."""

    path: Path
    feeds: dict[str, np.ndarray]
    results: tuple[np.ndarray, ...]

    @functools.cached_property
    def data(self) -> bytes:
        """The artifact's bytes."""
        return self.path.read_bytes()


@functools.cache
def compiled() -> Compiled:
    """The model, in a folder of its own that lasts as long as the temporary directory."""
    folder = Path(tempfile.mkdtemp(prefix="small-model-"))
    path = folder / "small.tar"
    onnx.save(_model(), folder / "small.onnx")
    compile(folder / "small.onnx", target="cpu", output=path)
    rng = np.random.default_rng(7)
    feeds = {
        "image": rng.standard_normal(SHAPES["image"], np.float32),
        "codes": rng.integers(0, 256, SHAPES["codes"]).astype(np.uint8),
        "nibbles": rng.integers(-8, 8, SHAPES["nibbles"]).astype(ml_dtypes.int4),
    }
    return Compiled(path, feeds, tuple(Session(path).run(None, feeds)))


@functools.cache
def for_cuda() -> bytes:
    """An artifact for a GPU, whose machine code is none."""
    folder = Path(tempfile.mkdtemp(prefix="small-model-"))
    write_artifact(artifact("cuda"), folder / "cuda.tar")
    return (folder / "cuda.tar").read_bytes()


def _model() -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    constants = {
        "s": np.float32(0.05), "z": np.uint8(120), "w": rng.integers(-9, 9, (8, 6, 3, 3), np.int8),
        "ws": np.float32(0.02), "wz": np.int8(0), "ns": np.float32(0.5),
        "nz": np.array(-2, ml_dtypes.int4),
    }  # fmt: skip
    nodes = [
        _node("QuantizeLinear", "image s z", "iq"), _node("DequantizeLinear", "iq s z", "i"),
        _node("DequantizeLinear", "w ws wz", "wf"),
        _node("Conv", "i wf", "c", pads=[1, 1, 1, 1]), _node("Relu", "c", "r"),
        _node("QuantizeLinear", "r s z", "rq"), _node("DequantizeLinear", "rq s z", "rf"),
        _node("GlobalAveragePool", "rf", "p"), _node("Flatten", "p", "means"),
        _node("DequantizeLinear", "codes s z", "cf"), _node("Sigmoid", "cf", "g"),
        _node("QuantizeLinear", "g s z", "gates"),
        _node("DequantizeLinear", "nibbles ns nz", "nf"), _node("Relu", "nf", "nr"),
        _node("QuantizeLinear", "nr ns nz", "positive"),
    ]  # fmt: skip
    types = {"image": TensorProto.FLOAT, "codes": TensorProto.UINT8, "nibbles": TensorProto.INT4}
    outputs = {
        "means": (TensorProto.FLOAT, (1, 8)), "gates": (TensorProto.UINT8, SHAPES["codes"]),
        "positive": (TensorProto.INT4, SHAPES["nibbles"]),
    }  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, types[name], shape) for name, shape in SHAPES.items()],
        [helper.make_tensor_value_info(name, *port) for name, port in outputs.items()],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _node(operator: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), [output], **attributes)
