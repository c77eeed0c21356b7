"""Mangled ONNX models: one line, or a module that gives what onnxruntime gives.

Every case is loaded and optimised; what is small is computed in numpy, and a part of it compiled
for this CPU and run as well. What onnxruntime refuses has no right answer: nothing is compared.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx_models.four_bits import FOUR_BIT_CASES
from onnx_models.integers import INTEGER_CASES
from onnx_models.operators import FLOAT_CASES
from onnx_models.oracle import run_onnxruntime
from qdq.random_graphs import random_model

import autoq
from autoq.errors import AutoqError
from autoq.frontend import load
from autoq.graph import Fusion, Graph, evaluate, optimise
from autoq.templates.target import host_cpu, parse_target
from fuzz.drawing import pick
from fuzz.mutations.of_files import mangle_bytes
from fuzz.mutations.of_models import mutate

LIMIT_SECONDS = 60
COMPILED_SHARE = 1 / 20
_TINY_SCALE = 1e-12
_HUGE = 1e30
SMALL = 2**18
"""Elements of all tensors of a case that is computed."""
_STATE = onnxruntime.capi.onnxruntime_pybind11_state
_OF_ORDER = {
    "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "ReduceLogSumExp", "LogSoftmax", "ArgMax",
    "ArgMin", "Resize", "Upsample", "TopK", "ConvTranspose", "Clip", "CumSum",
    "ScatterElements", "ScatterND",
}  # fmt: skip
_REFUSALS = (
    _STATE.Fail, _STATE.InvalidArgument, _STATE.InvalidGraph, _STATE.InvalidProtobuf,
    _STATE.NotImplemented, _STATE.RuntimeException, _STATE.NoSuchFile,
    RuntimeError, ValueError,  # Python's binding, of 4-bit values and of feeds that do not fit
)  # fmt: skip


@functools.cache
def _sound() -> tuple[onnx.ModelProto, ...]:
    rng = np.random.default_rng(0)
    graphs = [random_model(rng, exact=True) for _ in range(40)]
    cases = (FLOAT_CASES, INTEGER_CASES, FOUR_BIT_CASES)
    return (*graphs, *(made for table in cases for made in table.values()))


def case(rng: np.random.Generator, folder: Path) -> None:
    """One model, loaded, optimised, and computed when that is cheap."""
    path = folder / "model.onnx"
    model = pick(rng, _sound())
    if rng.random() < 0.2:
        path.write_bytes(mangle_bytes(rng, model.SerializeToString()))
    else:
        path.write_bytes(mutate(rng, model).SerializeToString())
    target = pick(rng, (host_cpu(), parse_target("cuda:sm_90a")))
    try:
        graph = optimise(load(path), target)
        if not _is_small(graph):
            return
        feeds = {name: _feed(rng, graph, name) for name in graph.inputs}
        results = evaluate(graph, feeds)
        _check(results, feeds, path)
        if rng.random() < COMPILED_SHARE:
            autoq.compile(path, target="cpu", output=folder / "model.tar")
            names = list(results)
            compiled = autoq.Session(folder / "model.tar").run(names, feeds)
            _check(dict(zip(names, compiled, strict=True)), feeds, path)
    except AutoqError as error:
        line = str(error)
        assert len(line.splitlines()) == 1 and len(line) < 20_000, f"not one line: {line[:300]!r}"
        named = str(path) in line or "node" in line or line.startswith("input ")
        assert named, f"a line that names nothing: {line[:300]}"


def _is_small(graph: Graph) -> bool:
    elements = sum(tensor.size for tensor in graph.tensors.values())
    windows = [
        math.prod(primitive["window"])
        for node in graph.nodes
        if isinstance(node, Fusion)
        for primitive in node.primitives
        if "Pool" in primitive.op
    ]
    return elements * max([1, *windows]) <= SMALL


def _feed(rng: np.random.Generator, graph: Graph, name: str) -> np.ndarray:
    tensor = graph.tensors[name]
    if tensor.value_dtype == "float32":
        return rng.standard_normal(tensor.shape, np.float32)
    if tensor.value_dtype == "bool":
        return rng.random(tensor.shape) < 0.5
    least, most = (-8, 7) if "4" in tensor.value_dtype else (-128, 127)
    shift = 0 if tensor.value_dtype.startswith("i") else -least
    values = rng.integers(least, most + 1, tensor.shape) + shift
    if tensor.value_dtype == "int64":  # mostly places
        return rng.integers(0, 4, tensor.shape)
    return values.astype(np.dtype(_numpy_dtype(tensor.value_dtype)))


def _numpy_dtype(name: str) -> np.dtype:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name) if name in ("int4", "uint4") else name)


def _check(results: dict[str, np.ndarray], feeds: dict[str, np.ndarray], path: Path) -> None:
    """Nine of ten elements are onnxruntime's: one step of a quantisation may differ, and spread."""
    if _has_no_answer(path):
        return
    try:
        expected = run_onnxruntime(path, feeds)
    except _REFUSALS:
        return
    for name, value in expected.items():
        result = results[name]
        assert result.dtype == value.dtype, f"{name}: {result.dtype}, not {value.dtype}"
        assert result.shape == value.shape, f"{name}: {result.shape}, not {value.shape}"
        result, value = result.astype(np.float64), value.astype(np.float64)
        finite = value[np.isfinite(value)]
        slack = 1.0 if expected[name].dtype != np.float32 else 1e-6
        slack += 1e-3 * np.abs(finite).max(initial=0)
        alike = np.isclose(result, value, rtol=1e-3, atol=slack, equal_nan=True)
        wrong = int((~alike).sum())
        assert wrong <= 1 + 0.1 * value.size, (
            f"{name}: {wrong} of {value.size} elements are wrong, such as "
            f"{result[~alike][0]} in place of {value[~alike][0]}"
        )


def _has_no_answer(path: Path) -> bool:
    """Whether onnxruntime's own answer is an accident.

    Its maximum of a NaN and a number depends on their order, as does a Clip with such a bound. Its
    Resize multiplies neighbours by weights of 0, as autoq does in ConvTranspose and CumSum. Its
    QOperator kernels convert quotients to integers that no integer holds, where a scale is next to
    nothing. Which products of numbers next to the largest overflow, and whether their sum is then
    infinite, a NaN or a number, is up to the order of additions.
    """
    graph = onnx.load(path, load_external_data=False).graph
    ops = {node.op_type for node in graph.node}
    if _OF_ORDER & ops and {"Sqrt", "Log", "Pow", "Div", "Reciprocal", "Exp"} & ops:
        return True
    single = [t for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    sizes = [abs(onnx.numpy_helper.to_array(tensor)) for tensor in single]
    if any((np.isfinite(size) & (size > _HUGE)).any() for size in sizes):
        return True
    tiny = any((size < _TINY_SCALE).any() for size in sizes)
    return tiny and any(op.startswith(("QLinear", "QGemm")) for op in ops)
