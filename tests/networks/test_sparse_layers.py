"""Models of weights that are mostly zeros: recognised, tuned beside dense kernels, and run."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qdq.oracle import Oracle, run_in_memory

import autoq
from autoq.devices import resolve
from autoq.errors import ModelError
from autoq.frontend import from_model
from autoq.graph import evaluate, optimise
from autoq.graph.ir import Layer
from autoq.records import read_records
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.generation import random_matrix
from autoq.templates.target import parse_target


def sparse_model(
    rng: np.random.Generator, extents: list[int], vector: int, sparsity: float, sparse: bool = False
) -> onnx.ModelProto:
    """Quantised products one behind the other, of weights in vectors of so many outputs.

    sparse: their integers are given as sparse initializers.
    """
    nodes, tensors, sparse_tensors = [], [], []

    def constant(name: str, value: np.ndarray) -> str:
        tensors.append(numpy_helper.from_array(value, name))
        return name

    def quantised(name: str, scale: float, of: str) -> str:
        pair = [constant(f"{name}_scale", np.float32(scale)), constant(f"{name}_zero", np.int8(3))]
        nodes.append(helper.make_node("QuantizeLinear", [of, *pair], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *pair], [name]))
        return name

    x = quantised("x0", 1 / 16, "x")
    for number, (k, n) in enumerate(itertools.pairwise(extents[1:]), 1):
        weight = np.ascontiguousarray(random_matrix(rng, (n, k), sparsity, vector).to_dense().T)
        name = f"w{number}"
        if sparse:
            places = np.flatnonzero(weight)
            values = numpy_helper.from_array(weight.reshape(-1)[places], name)
            indices = numpy_helper.from_array(places.astype(np.int64), f"{name}_indices")
            sparse_tensors.append(helper.make_sparse_tensor(values, indices, weight.shape))
        else:
            constant(name, weight)
        scale = [constant(f"{name}_scale", np.float32(1 / 512))]
        scale.append(constant(f"{name}_zero", np.int8(0)))
        nodes.append(helper.make_node("DequantizeLinear", [name, *scale], [f"{name}_float"]))
        y = f"y{number}"
        if rng.random() < 0.5:
            bias = constant(f"{name}_bias", rng.integers(-9, 10, n).astype(np.float32) / 8)
            nodes.append(helper.make_node("Gemm", [x, f"{name}_float", bias], [y]))
        else:
            nodes.append(helper.make_node("MatMul", [x, f"{name}_float"], [y]))
        x = quantised(f"x{number}", 1 / 8, y)
    graph = helper.make_graph(
        nodes, "sparse",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [extents[0], extents[1]])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, [extents[0], extents[-1]])],
        tensors, sparse_initializer=sparse_tensors,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def layers_of(model: onnx.ModelProto, target: str) -> list[Gemm]:
    """The products that a model becomes."""
    graph = optimise(from_model(model), parse_target(target))
    found = [node.workload for node in graph.nodes if isinstance(node, Layer)]
    return [workload for workload in found if isinstance(workload, Gemm)]


@pytest.mark.parametrize("seed", range(12))
def test_random_models_know_their_zeros_and_give_what_onnxruntime_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vector = int(rng.choice([8, 16, 32]))
    extents = [int(rng.integers(16, 40)), *(int(16 * rng.integers(3, 8)) for _ in range(3))]
    model = sparse_model(rng, extents, vector, float(rng.uniform(0.7, 0.95)))
    feeds = {"x": rng.standard_normal(extents[:2], np.float32)}
    oracle = Oracle(model, feeds)
    for target in ("cpu", "cuda:sm_90a"):
        known = [workload.sparsity for workload in layers_of(model, target)]
        assert len(known) == len(extents) - 2 and all(known)
        graph = optimise(from_model(model), parse_target(target))
        assert not oracle.complaint(evaluate(graph, feeds))


def test_weights_of_few_zeros_stay_dense() -> None:
    model = sparse_model(np.random.default_rng(1), [16, 64, 64], 2, 0.3)
    assert [workload.sparsity for workload in layers_of(model, "cpu")] == [None]


@pytest.mark.usefixtures("in_this_process")
def test_a_sparse_layer_is_tuned_compiled_and_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    model = sparse_model(rng, [64, 256, 192], 8, 0.9)
    onnx.save(model, tmp_path / "model.onnx")
    records, artifact = tmp_path / "sparse.jsonl", tmp_path / "model.autoq"
    path = tmp_path / "model.onnx"
    untuned = autoq.compile(path, target="cpu", output=artifact)
    (line,) = untuned.zeros.values()
    assert "vectors-8" in line and "is measured; autoq tune does" in line
    autoq.tune(path, target="cpu", trials=12, output=records, jobs=1, tuner="random")
    tried = {record.template for record in read_records(records).records}
    sparse = {name for name in tried if name.startswith("gemm_spmm")}
    assert sparse and tried - sparse, "both kinds are candidates of the one task"
    report = autoq.compile(path, target="cpu", tuning_records=[records], output=artifact)
    (line,) = report.zeros.values()
    (chosen,) = tried & {call.template for call in report.calls}
    assert line.count(" us") == 2 and line.index(chosen) < line.index(", ")
    feeds = {"x": rng.standard_normal((64, 256), np.float32)}
    names = [value.name for value in model.graph.output]
    found = autoq.Session(artifact).run(names, feeds)
    assert not Oracle(model, feeds).complaint(dict(zip(names, found, strict=True)))


def test_sparse_initializers_are_read() -> None:
    given = sparse_model(np.random.default_rng(3), [16, 64, 48], 8, 0.9, sparse=True)
    stored = sparse_model(np.random.default_rng(3), [16, 64, 48], 8, 0.9)
    assert len(given.graph.sparse_initializer) == 1
    feeds = {"x": np.random.default_rng(4).standard_normal((16, 64), np.float32)}
    graph = optimise(from_model(given), resolve("cpu").target)
    found, expected = evaluate(graph, feeds), run_in_memory(stored, feeds)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
    assert all(workload.sparsity for workload in layers_of(given, "cpu"))


def test_a_sparse_initializer_whose_indices_do_not_fit_is_one_line() -> None:
    model = sparse_model(np.random.default_rng(3), [16, 64, 48], 8, 0.9, sparse=True)
    (sparse,) = model.graph.sparse_initializer
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([64 * 48]), "indices"))
    with pytest.raises(ModelError, match=r"sparse initializer 'w1' of shape \[64, 48\]: 1 indices"):
        from_model(model)
