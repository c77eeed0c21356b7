"""Random quantised graphs give what onnxruntime gives, on both targets."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from fuzz import graphs
from fuzz.child import rng_of
from gpu_kernels import end_if_compile_only
from qdq.oracle import Oracle, normal_feeds
from qdq.random_graphs import random_model

import autoq
from autoq.frontend import from_model
from autoq.graph import evaluate, optimise
from autoq.templates.target import parse_target

TARGETS = [parse_target("cpu"), parse_target("cuda")]


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("matrices", [False, True])
@pytest.mark.parametrize("seed", range(24))
def test_optimised_graph_agrees_with_onnxruntime(seed, matrices, blocks):
    rng = np.random.default_rng(seed)
    model = random_model(rng, exact=seed % 2 == 0, matrices=matrices, blocks=blocks)
    feeds = normal_feeds(model, rng)
    oracle = Oracle(model, feeds)
    for target in TARGETS:
        assert not oracle.complaint(evaluate(optimise(from_model(model), target), feeds)), target


@pytest.mark.parametrize("seed", range(1001, 1003))
def test_compiled_graph_agrees_with_onnxruntime(seed, tmp_path):
    graphs.case(np.random.default_rng(seed), tmp_path, compiled_share=1.0)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(2000, 2048))
def test_graph_on_a_gpu_agrees_with_onnxruntime(seed, tmp_path):
    end_if_compile_only()
    rng = np.random.default_rng(seed)
    model = random_model(rng, seed % 2 == 0, matrices=seed >= 2024, blocks=seed >= 2036)
    feeds = normal_feeds(model, rng)
    onnx.save(model, tmp_path / "random.onnx")
    autoq.compile(tmp_path / "random.onnx", target="cuda", output=tmp_path / "random.autoq")
    names = [value.name for value in model.graph.output]
    results = autoq.Session(tmp_path / "random.autoq").run(names, feeds)
    complaint = Oracle(model, feeds).complaint(dict(zip(names, results, strict=True)))
    assert not complaint, complaint


def test_layouts_that_need_copies_agree_with_onnxruntime(tmp_path):
    graphs.case(rng_of(1, 13), tmp_path, compiled_share=0.0)


@pytest.mark.parametrize("matrices", [False, True])
def test_bounds_leave_no_room_for_a_step(matrices):
    meet = total = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        model = random_model(rng, exact=seed % 2 == 0, matrices=matrices)
        certain, all_of_them = Oracle(model, normal_feeds(model, rng)).certain
        meet, total = meet + certain, total + all_of_them
    assert total > 1000 and meet > 0.99 * total
