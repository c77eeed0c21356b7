"""BERT pruned in rows that tiles share, or in whole channels: what kernels read of it is less."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_models.oracle import run_onnxruntime

from autoq import frontend
from autoq.errors import InputError
from autoq.graph import Fusion, Layer, evaluate, optimise
from autoq.models.bert import bert
from autoq.pruning.model import PruneOptions, prune
from autoq.pruning.onnx_weights import find_weights
from autoq.pruning.pattern import Pattern
from autoq.pruning.ranking import Bounds
from autoq.pruning.shared_inputs import rows_shared
from autoq.quantization.quantize import quantize
from autoq.templates.target import parse_target

BATCH, LENGTH, WIDTH, HEADS = 2, 16, 128, 8
PARTS = ("query", "key", "value")
ALIKE = Bounds(0.75, 0.75)


def network(path, layers=2):
    made = bert(layers, LENGTH, WIDTH, HEADS, batch=BATCH)
    onnx.save(made, str(path))
    return {"input": np.random.default_rng(0).standard_normal((BATCH, LENGTH, WIDTH), np.float32)}


def test_products_of_one_tensor_are_a_group(tmp_path):
    network(tmp_path / "m.onnx", layers=1)
    proto = onnx.load(tmp_path / "m.onnx")
    weights, _ = find_weights(proto)
    named = [{weights[place].name for place in one} for one in rows_shared(proto.graph, weights)]
    assert {f"layer0.attention.{part}" for part in PARTS} in named
    assert sorted(map(len, named)) == [1, 1, 1, 3]


@pytest.mark.parametrize("kind", ["tw", "tvw"])
def test_rows_are_shared_and_normalisations_pick_them(tmp_path, kind):
    feeds = network(tmp_path / "m.onnx")
    options = PruneOptions(bounds=ALIKE, joint_channels=True, shared_rows=True)
    result = prune(tmp_path / "m.onnx", tmp_path / "p.onnx", Pattern.make(kind, 16), 0.75, options)
    rows = {w.name: {tuple(tile.rows) for tile in w.structure.tiles} for w in result.weights}
    for layer in ("layer0", "layer1"):
        of_parts = [rows[f"{layer}.attention.{part}"] for part in PARTS]
        assert of_parts[0] == of_parts[1] == of_parts[2] and len(of_parts[0]) == 1
        assert len(rows[f"{layer}.expand"]) == 1
    assert abs(result.sparsity - 0.75) < 0.005
    quantize(tmp_path / "p.onnx", feeds, tmp_path / "q.onnx")
    graph = optimise(frontend.load(tmp_path / "q.onnx"), parse_target("cuda:sm_90a"))
    picked = [n.picked for n in graph.nodes if isinstance(n, Fusion) and n.picked is not None]
    assert len(picked) == 3  # behind the first product, that of tokens, lies no normalisation
    y, expected = (
        next(iter(found.values()))
        for found in (evaluate(graph, feeds), run_onnxruntime(tmp_path / "q.onnx", feeds))
    )
    assert np.abs(y - expected).mean() < 0.02 * np.sqrt((expected**2).mean())


def test_whole_channels_leave_a_smaller_dense_network(tmp_path):
    feeds = network(tmp_path / "m.onnx")
    options = PruneOptions(bounds=ALIKE, joint_channels=True, columns=1.0)
    result = prune(tmp_path / "m.onnx", tmp_path / "p.onnx", Pattern.make("tw", 16), 0.75, options)
    assert abs(result.sparsity - 0.75) < 0.005
    onnx.checker.check_model(onnx.load(tmp_path / "p.onnx"), full_check=True)
    graph = optimise(frontend.load(tmp_path / "p.onnx"), parse_target("cuda:sm_90a"))
    sizes = {n.name: n.workload for n in graph.nodes if isinstance(n, Layer)}
    dims = {t.name: tuple(t.dims) for t in onnx.load(tmp_path / "p.onnx").graph.initializer}
    for layer in ("layer0", "layer1"):
        for part in PARTS:
            assert dims[f"{layer}.attention.{part}.weight"] == (WIDTH, WIDTH // 4)
        assert dims[f"{layer}.attention.output.weight"] == (WIDTH // 4, WIDTH)
        assert dims[f"{layer}.expand.weight"] == (WIDTH, WIDTH)
        assert dims[f"{layer}.contract.weight"] == (WIDTH, WIDTH)
    assert sizes
    (y,) = run_onnxruntime(tmp_path / "p.onnx", feeds).values()
    assert np.isfinite(y).all()


@pytest.mark.parametrize(
    ("pattern", "options", "words"),
    [
        ("ew", PruneOptions(shared_rows=True), "no tiles"),
        ("tew", PruneOptions(shared_rows=True), "tw and tvw"),
        ("tw", PruneOptions(columns=1.5, joint_channels=True), "from 0 to 1"),
        ("tw", PruneOptions(columns=float("nan"), joint_channels=True), "from 0 to 1"),
        ("tw", PruneOptions(columns=0.7), "joint channels"),
    ],
)
def test_options_that_do_not_fit(tmp_path, pattern, options, words):
    network(tmp_path / "m.onnx", layers=1)
    with pytest.raises(InputError, match=words):
        prune(tmp_path / "m.onnx", tmp_path / "p.onnx", pattern, 0.5, options)
