"""Batched products of float32 on a CPU: every layout, ragged tiles, every vector width, models."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from onnx_models.makers import model, node, normal
from qdq.oracle import run_in_memory

import autoq
from autoq.frontend import from_model
from autoq.graph import Layer, optimise
from autoq.kernel.kernel_store import KernelStore
from autoq.runtime.cpu.call import CpuCall
from autoq.templates.cpu.batched.batched_gemm_floats import TEMPLATE, lanes_of
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import parse_target

CPU, FLOAT32 = parse_target("cpu"), Epilogue("float32")
# Every pair of two arrays' layouts.
ORDERS = [
    (("bhmk", "bmhk")[x], ("bhnk", "bhkn", "bnhk", "bkhn")[other], ("bhmn", "bmhn")[y])
    for x, other, y in itertools.product(range(2), range(4), range(2))
    if (x + other + y) % 2 == 0
]


def _assert_right(workload, config=None):
    arrays, constants = workload.random_case(np.random.default_rng(0))
    compiled = autoq.operator(workload, target="cpu", constants=constants)
    assert compiled.template == TEMPLATE.name
    (wanted,) = workload.reference(arrays, constants)
    error = np.abs(np.asarray(compiled(*arrays)) - wanted).max()
    assert error <= workload.tolerance(CPU).relative * np.sqrt(np.mean(wanted**2))


@pytest.mark.parametrize("orders", ORDERS, ids=",".join)
def test_every_layout(orders):
    _assert_right(BatchedGemm(2, 9, 21, 13, 3, "float32", "float32", *orders, FLOAT32))


@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (1, 64, 3), (33, 2, 70), (40, 49, 32), (7, 5, 9)])
def test_ragged_tiles(m, n, k):
    _assert_right(BatchedGemm(1, m, n, k, 2, "float32", "float32", epilogue=FLOAT32))


def test_configurations_give_the_same_bits():
    workload = BatchedGemm(1, 23, 70, 40, 2, "float32", "float32", epilogue=FLOAT32)
    arrays, constants = workload.random_case(np.random.default_rng(1))
    space, store = TEMPLATE.space(workload, CPU), KernelStore(None)
    drawn = space.sample(np.random.default_rng(2), 4)
    found = set()
    for config in (TEMPLATE.default(workload, CPU), *drawn):
        kernel = store.kernel(TEMPLATE, workload, config, CPU)
        packed = TEMPLATE.constants(workload, config, constants)
        call = CpuCall(kernel, packed, [spec.stored for spec in workload.outputs])
        named = [(s.name, a) for s, a in zip(workload.inputs, arrays, strict=True)]
        found.add(np.asarray(call(named)[0]).tobytes())
    assert len(drawn) == 4 and len(found) == 1


def test_vectors_are_no_wider_than_registers_or_rows():
    wide = BatchedGemm(1, 8, 100, 8, 1, "float32", "float32", epilogue=FLOAT32)
    avx2 = replace(CPU, avx512=False, avx2=True)
    assert lanes_of(wide, avx2) == 8 and lanes_of(replace(wide, n=5), avx2) == 4
    config = TEMPLATE.default(wide, avx2)
    assert TEMPLATE.space(wide, avx2).rejection(config) is None
    assert config.tile_rows * config.vectors + config.vectors + 1 <= 16


def test_gpus_and_16_bit_floats_are_not_matched():
    workload = BatchedGemm(1, 8, 16, 8, 1, "float32", "float32", epilogue=FLOAT32)
    assert not TEMPLATE.matches(workload, parse_target("cuda:sm_90a"))
    halves = replace(workload, in_dtype="float16", other_dtype="float16")
    assert not TEMPLATE.matches(halves, CPU)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_attention_of_floats_agrees_with_onnxruntime(dtype, tmp_path):
    heads = {"shape": np.int64([2, 11, 3, 8])}
    nodes = [
        *(node("Reshape", f"{x} shape", f"{x}h") for x in "qkv"),
        node("Transpose", "qh", "qt", perm=[0, 2, 1, 3]),
        node("Transpose", "kh", "kt", perm=[0, 2, 3, 1]),
        node("Transpose", "vh", "vt", perm=[0, 2, 1, 3]),
        node("MatMul", "qt kt", "scores"),
        node("Mul", "scores factor", "scaled"),
        node("Softmax", "scaled", "shares", axis=-1),
        node("MatMul", "shares vt", "weighed"),
        node("Transpose", "weighed", "y", perm=[0, 2, 1, 3]),
    ]
    inputs = {x: ((2, 11, 24), dtype) for x in "qkv"}
    made = model(nodes, inputs, {**heads, "factor": np.array(0.35, dtype)})
    layers = [n.workload for n in optimise(from_model(made), CPU).nodes if isinstance(n, Layer)]
    products = [w for w in layers if isinstance(w, BatchedGemm)]
    assert [w.in_dtype for w in products] == ["float32", "float32"]
    feeds = {x: normal(2, 11, 24).astype(dtype) for x in "qkv"}
    autoq.compile(from_model(made), target="cpu", output=tmp_path / "m.autoq")
    (found,) = autoq.Session(tmp_path / "m.autoq").run(None, feeds)
    wanted = run_in_memory(made, feeds)["y"].astype(np.float32)
    relative = 1e-5 if dtype == "float32" else 1e-2
    assert np.abs(found.astype(np.float32) - wanted).max() <= relative * np.abs(wanted).max()
