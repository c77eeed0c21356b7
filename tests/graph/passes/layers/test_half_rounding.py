"""Whole models of 16-bit floats: what lies between their kernels is of 16 bits too."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from qdq.oracle import run_in_memory

from autoq import models
from autoq.frontend import from_model
from autoq.graph import Fusion, Layer, evaluate, optimise
from autoq.models.weight_only import to_float16, to_matmul_nbits
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.shared.shared_float_gemm import SharedFloatGemm
from autoq.templates.target import parse_target


def encoder(four_bits: bool) -> onnx.ModelProto:
    """Two layers of BERT over tokens, in float16."""
    made = models.bert(layers=2, length=8, width=64, heads=2, vocabulary=50)
    return to_float16(to_matmul_nbits(made) if four_bits else made)


@pytest.mark.parametrize("four_bits", [True, False])
@pytest.mark.parametrize("target", ["cuda:sm_90a", "cuda:sm_80", "cpu"])
def test_no_kernel_only_rounds(four_bits, target):
    made = encoder(four_bits)
    graph = optimise(from_model(made), parse_target(target))
    feeds = {"input": np.random.default_rng(0).integers(0, 50, (1, 8))}
    expected = run_in_memory(made, feeds)["output"].astype(np.float32)
    found = evaluate(graph, feeds)["output"].astype(np.float32)
    assert np.abs(found - expected).max() <= 1e-2 * np.abs(expected).max()
    if target == "cpu":
        return
    layers = [node.workload for node in graph.nodes if isinstance(node, Layer)]
    shared = [work for work in layers if isinstance(work, SharedFloatGemm)]
    assert len(shared) == (2 if target == "cuda:sm_90a" else 0)
    products = [work for work in layers if isinstance(work, FloatGemm)]
    products += [work.one for work in shared for _ in range(work.products)]
    assert len(products) == 12
    assert all(work.out_dtype == "float16" for work in products)
    assert sum(work.residual for work in products) == 4
    alone = [n for n in graph.nodes if isinstance(n, Fusion) and n.kind == "Cast"]
    assert [node.input_dtypes for node in alone] in ([], [("int64",)], [("int32",)])


@pytest.mark.parametrize("target", ["cuda:sm_90a", "cpu"])
def test_a_float32_model_that_allows_halves_keeps_its_residuals(target):
    made = to_matmul_nbits(models.bert(layers=1, length=8, width=64, heads=2))
    for node in made.graph.node:
        if node.op_type == "MatMulNBits":
            node.attribute.append(onnx.helper.make_attribute("accuracy_level", 2))
    graph = optimise(from_model(made), parse_target(target))
    added = [
        node.workload for node in graph.nodes
        if isinstance(node, Layer) and isinstance(node.workload, FloatGemm)
        and node.workload.residual
    ]  # fmt: skip
    assert all(workload.out_dtype == "float32" for workload in added)
    feeds = {"input": np.random.default_rng(0).standard_normal((1, 8, 64), np.float32)}
    expected = run_in_memory(made, feeds)["output"]
    error = np.abs(evaluate(graph, feeds)["output"] - expected).max()
    assert error <= 1e-2 * np.abs(expected).max()
