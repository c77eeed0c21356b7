"""Models of bfloat16: onnxruntime computes the same numbers in float32."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx_models.makers import model, node, normal
from qdq.oracle import run_in_memory

import autoq
from autoq.cli.npz import read_arrays
from autoq.frontend import from_model
from autoq.graph import Layer, evaluate, optimise
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import parse_target

BRAIN = np.dtype(ml_dtypes.bfloat16)
AMPERE, HOPPER, TURING, CPU = (
    parse_target(name) for name in ("cuda:sm_80", "cuda:sm_90a", "cuda:sm_75", "cpu")
)
GELU = [node("Div", "a root", "r"), node("Erf", "r", "e"), node("Add", "e one", "p"),
        node("Mul", "a p", "d"), node("Mul", "d half", "g")]  # fmt: skip
PERCEPTRON = [node("MatMul", "x w", "h"), node("Add", "h b", "a"), *GELU,
              node("MatMul", "g v", "o"), node("Add", "o x")]  # fmt: skip
HEADS = [node("Reshape", "x split", "s"), node("Transpose", "s", "q", perm=[0, 2, 1, 3]),
         node("Transpose", "s", "k", perm=[0, 2, 3, 1]), node("MatMul", "q k", "m"),
         node("Mul", "m half", "n"), node("Softmax", "n", "p", axis=-1), node("MatMul", "p q", "c"),
         node("Transpose", "c", "t", perm=[0, 2, 1, 3]), node("Reshape", "t join")]  # fmt: skip
NUMBERS = {
    "w": (normal(24, 40) / 4).astype(BRAIN), "v": (normal(40, 24) / 6).astype(BRAIN),
    "b": normal(40).astype(BRAIN), "root": np.array(2**0.5, BRAIN), "one": np.array(1, BRAIN),
    "half": np.array(0.5, BRAIN), "split": np.array([2, 9, 3, 8]), "join": np.array([2, 9, 24]),
}  # fmt: skip


def made_of(nodes: list[onnx.NodeProto], dtype=BRAIN, **further: np.ndarray) -> onnx.ModelProto:
    used = {name for item in nodes for name in item.input}
    constants = {name: value for name, value in {**NUMBERS, **further}.items() if name in used}
    return model(nodes, {"x": ((2, 9, 24), dtype)}, constants)


def in_float32(made: onnx.ModelProto) -> onnx.ModelProto:
    """The same numbers, without a rounding behind any operation."""
    wide = onnx.ModelProto()
    wide.CopyFrom(made)
    for item in wide.graph.initializer:
        if item.data_type == TensorProto.BFLOAT16:
            value = numpy_helper.to_array(item).astype(np.float32)
            item.CopyFrom(numpy_helper.from_array(value, item.name))
    for value in (*wide.graph.input, *wide.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    for item in wide.graph.node:
        if item.op_type == "Cast":
            item.attribute[0].i = TensorProto.FLOAT
    return wide


def assert_near(found: np.ndarray, made: onnx.ModelProto, x: np.ndarray) -> None:
    """A result is off by at most two roundings to bfloat16 of the largest number."""
    (expected,) = run_in_memory(in_float32(made), {"x": x.astype(np.float32)}).values()
    assert found.dtype == (np.float32 if made.graph.output[0].type.tensor_type.elem_type == 1
                           else BRAIN)  # fmt: skip
    apart = np.abs(found.astype(np.float32) - expected).max()
    assert apart <= 2.0**-7 * np.abs(expected).max()


@pytest.mark.parametrize("target", [HOPPER, AMPERE, TURING, CPU], ids=lambda t: t.arch)
@pytest.mark.parametrize("nodes", [PERCEPTRON, HEADS], ids=["perceptron", "attention"])
def test_products_are_kernels_of_bfloat16_where_there_are_any(nodes, target):
    made = made_of(nodes)
    graph = optimise(from_model(made), target)
    x = normal(2, 9, 24).astype(BRAIN)
    assert_near(evaluate(graph, {"x": x})["y"], made, x)
    layers = [item.workload for item in graph.nodes if isinstance(item, Layer)]
    products = [w for w in layers if isinstance(w, (FloatGemm, BatchedGemm, Attention))]
    # Turing multiplies no bfloat16, and it and CPUs multiply two activations as float32.
    if target is TURING and nodes is PERCEPTRON:
        assert not products
    elif target in (CPU, TURING) and nodes is HEADS:
        assert [w.in_dtype for w in products] == ["float32"] * 2
    elif nodes is HEADS:  # both products and the softmax between them
        assert [w.v_dtype for w in products] == ["bfloat16"]
    else:
        assert [w.in_dtype for w in products] == ["bfloat16"] * 2
    if products and nodes is PERCEPTRON:
        assert (products[0].activation, products[0].out_dtype) == ("gelu", "bfloat16")
        assert products[1].residual == (target is not CPU)


def test_runs_on_the_cpu(tmp_path):
    made = made_of(PERCEPTRON)
    onnx.save(made, tmp_path / "model.onnx")
    autoq.compile(tmp_path / "model.onnx", target="cpu", output=tmp_path / "model.autoq")
    x = normal(2, 9, 24).astype(BRAIN)
    session = autoq.Session(tmp_path / "model.autoq")
    np.savez(tmp_path / "inputs.npz", x=x)
    feeds = read_arrays(tmp_path / "inputs.npz", session.get_inputs())
    (found,) = session.run(None, feeds)
    assert_near(found, made, x)


@pytest.mark.parametrize(
    ("nodes", "dtype", "product"),
    [
        ([node("Cast", "x", "c", to=16), node("MatMul", "c w")], "float32", "bfloat16"),
        ([node("MatMul", "x w", "c"), node("Cast", "c", to=1)], BRAIN, "bfloat16"),
        ([node("Cast", "x", "c", to=16), node("MatMul", "c w", "m"), node("Cast", "m", to=16)],
         "float16", "bfloat16"),
        ([node("Add", "one half", "k"), node("Mul", "x k", "m"), node("MatMul", "m w")], BRAIN,
         "bfloat16"),
    ],
    ids=["to", "from", "from float16", "constants"],
)  # fmt: skip
def test_casts_round(nodes, dtype, product):
    made = made_of(nodes, dtype)
    x = normal(2, 9, 24).astype(dtype)
    graph = optimise(from_model(made), HOPPER)
    assert_near(evaluate(graph, {"x": x})["y"], made, x)
    found = [item.workload for item in graph.nodes if isinstance(item, Layer)]
    assert [w.in_dtype for w in found if isinstance(w, FloatGemm)] == [product]
