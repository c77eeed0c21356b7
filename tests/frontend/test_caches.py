"""Decoders: caches of keys and values, rotary embeddings, queries that share keys, and TopK."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_models.caches import CACHES, LENGTHS, grouped
from onnx_models.makers import model, node
from qdq.oracle import run_in_memory

import autoq
from autoq.errors import ModelError
from autoq.frontend import from_model
from autoq.graph import evaluate, optimise
from autoq.templates.target import parse_target

TARGETS = [parse_target("cuda:sm_90a"), parse_target("cpu")]


def _feeds(name: str, made: onnx.ModelProto) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    feeds = {}
    for value in made.graph.input:
        shape = [extent.dim_value for extent in value.type.tensor_type.shape.dim]
        if value.name == "i":
            feeds["i"] = rng.integers(0, 20, shape)
        elif value.name == "n":
            feeds["n"] = np.array(LENGTHS[name], np.int32)
        else:
            feeds[value.name] = rng.standard_normal(shape, np.float32)
    return feeds


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.kind)
@pytest.mark.parametrize("name", CACHES)
def test_operators_agree_with_onnxruntime(name, target):
    feeds = _feeds(name, CACHES[name])
    wanted = run_in_memory(CACHES[name], feeds)
    found = evaluate(optimise(from_model(CACHES[name]), target), feeds)
    for output, value in wanted.items():
        given = found[output]
        if output in ("pk", "pv") and name in LENGTHS:  # rows that do not count are anything
            rows = np.arange(value.shape[2]) <= feeds["n"][:, None]
            value, given = (array.transpose(0, 2, 1, 3)[rows] for array in (value, given))
        np.testing.assert_allclose(given, value, rtol=1e-4, atol=1e-5, strict=True)


def _top(shape, k, axis, dtype="float32", **more):
    inputs = {"x": (shape, dtype)}
    return model([node("TopK", "x k", "y i", axis=axis, **more)], inputs, {"k": np.array([k])},
                 ("y", "i"))  # fmt: skip


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.kind)
@pytest.mark.parametrize(
    "made",
    [_top((2, 3, 50), 7, -1), _top((4, 9, 5), 9, 1, largest=0), _top((300,), 1, 0),
     _top((2, 30), 4, 1, "int64"), _top((3, 20), 3, 1, "float16")],
    ids=["last", "all of a middle axis", "one", "int64", "float16"],
)  # fmt: skip
def test_top_elements_are_in_order(made, target):
    tensor = made.graph.input[0].type.tensor_type
    shape = [extent.dim_value for extent in tensor.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    feeds = {"x": np.random.default_rng(5).integers(-9, 9, shape).astype(dtype)}  # many are equal
    wanted = run_in_memory(made, feeds)
    found = evaluate(optimise(from_model(made), target), feeds)
    for output, value in wanted.items():
        np.testing.assert_array_equal(found[output], value, strict=True)


def test_a_step_runs_compiled(tmp_path):
    name = "grouped steps in a wide cache"
    onnx.save(CACHES[name], tmp_path / "step.onnx")
    autoq.compile(tmp_path / "step.onnx", target="cpu", output=tmp_path / "step.tar")
    feeds = _feeds(name, CACHES[name])
    (found,) = autoq.Session(tmp_path / "step.tar").run(["y"], feeds)
    wanted = run_in_memory(CACHES[name], feeds)["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "made, message",
    [
        (grouped(1, 7, 6, local_window_size=4), "local_window_size 4; export without it"),
        (_top((3, 5), 6, 1), "k 6 of 5 elements along axis 1"),
        (_top((2**17,), 6, 0), "cut the model in front of it"),
        (_top((3, 5), 2, 1, "int32"), "floats and int64 are supported: cast it"),
    ],
)
def test_what_is_not_supported_is_said(made, message):
    with pytest.raises(ModelError, match=message):
        from_model(made)
