"""Embeddings are one kernel that reads rows of bytes, by indices as the model gives them."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_kernels import gpu_host
from onnx_models.makers import model, node
from ptx.kernels import run
from qdq.oracle import run_in_memory
from with_nvcc import needs_nvcc

from autoq import Session, compile
from autoq.frontend import from_model
from autoq.graph import Fusion, evaluate, optimise
from autoq.graph.lowering.fusions import fusion_prim_func, kernel_family
from autoq.graph.places import places_of_inputs
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")


def embedding(width: int, dtype: str = "int64", quantised: bool = True, places: tuple = (7,)):
    """Rows of 50 words and of 7 places added; tokens count from either end of the words."""
    rng = np.random.default_rng(width)
    constants = {
        "words": rng.standard_normal((50, width), np.float32),
        "at": rng.standard_normal((*places, width), np.float32),
        "s": np.float32(0.03), "z": np.uint8(117), "t": np.float32(0.04), "y0": np.int8(-9),
    }  # fmt: skip
    nodes = [node("Gather", "words x", "e", axis=0)]
    if quantised:
        nodes += [node("QuantizeLinear", "e s z", "q"), node("DequantizeLinear", "q s z", "d")]
    nodes += [node("Add", f"{'d' if quantised else 'e'} at", "a"),
              node("QuantizeLinear", "a t y0", "y")]  # fmt: skip
    feeds = {"x": rng.integers(-50, 50, (3, 7)).astype(dtype)}
    used = {i for item in nodes for i in item.input}
    made = model(nodes, {"x": ((3, 7), dtype)}, {n: v for n, v in constants.items() if n in used})
    return made, feeds


CASES = [(48, "int64", True, (7,)), (20, "int32", True, (1,)), (10, "int64", False, (3, 7))]


@needs_nvcc
@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_kernel_gives_what_onnxruntime_gives(case):
    made, feeds = embedding(*case)
    graph = optimise(from_model(made), TARGET)
    (only,) = graph.nodes
    assert isinstance(only, Fusion) and kernel_family(only, TARGET) == "gathered"
    assert only.input_dtypes == (case[1],) and places_of_inputs(graph) == {"x": 50}
    table = next(array for array in only.constants if len(array) == 50)
    assert table.dtype == ("uint8" if case[2] else "float32")
    (expected,) = run_in_memory(made, feeds).values()
    assert np.array_equal(evaluate(graph, feeds)["y"], expected)
    inputs = [feeds["x"], *(array.reshape(-1) for array in only.constants)]
    found = run(fusion_prim_func(only, TARGET), TARGET, inputs, [((expected.size,), "int8")])
    assert np.array_equal(found[0].reshape(expected.shape), expected)


def test_what_else_reads_rows_or_indices_keeps_them():
    made, _ = embedding(48)
    made.graph.output.append(made.graph.output[0].__class__(name="e"))
    made.graph.output[1].type.tensor_type.elem_type = 1
    for size in (3, 7, 48):
        made.graph.output[1].type.tensor_type.shape.dim.add().dim_value = size
    graph = optimise(from_model(made), TARGET)
    assert len(graph.nodes) > 1
    assert not any(array.dtype == np.uint8 for item in graph.nodes for array in item.constants)
    assert len(optimise(from_model(embedding(48)[0]), parse_target("cpu")).nodes) >= 1


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_gpu_gives_what_onnxruntime_gives(case, tmp_path):
    gpu_host()
    made, feeds = embedding(*case)
    compile(from_model(made), target="cuda", output=tmp_path / "embedding.tar")
    (found,) = Session(tmp_path / "embedding.tar").run(None, feeds)
    assert np.array_equal(found, next(iter(run_in_memory(made, feeds).values())))
