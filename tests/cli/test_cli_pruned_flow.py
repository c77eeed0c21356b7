"""The way of a pruned model through the verbs: prune, quantize, tune, compile, run."""

import numpy as np
import onnx
import onnxruntime
import pytest
from small_models import two_products
from trial_records import trials_of

DEPTH = 96


@pytest.fixture
def dense_model(folder):
    onnx.save(two_products(40, DEPTH), "dense.onnx")
    return folder / "dense.onnx"


def _ok(screen):
    assert screen.code == 0 and screen.err == "", screen
    return screen.out


@pytest.mark.parametrize(
    ("options", "kernel"),
    [
        (("--pattern", "bw", "--granularity", 16, "--sparsity", 0.75), "spmm"),
        (("--pattern", "tew", "--granularity", 32, "--sparsity", 0.8), "tiles_and_elements"),
    ],
    ids=["bw", "tew"],
)
def test_from_dense_model_to_outputs(autoq, folder, dense_model, options, kernel):
    rng = np.random.default_rng(9)
    np.savez("samples.npz", x=rng.standard_normal((40, DEPTH)).astype(np.float32))
    x = rng.standard_normal((40, DEPTH)).astype(np.float32)
    np.savez("batch.npz", x=x)
    _ok(autoq("prune", dense_model, "-o", "pruned.onnx", *options))
    _ok(autoq("quantize", "pruned.onnx", "--calibration", "samples.npz", "-o", "m.onnx"))
    tuning = ("tune", "m.onnx", "--target", "cpu", "--trials", 8, "-o", "m.jsonl", "--jobs", 2)
    _ok(autoq(*tuning))
    templates = {trial.template for trial in trials_of("m.jsonl")}
    assert any(kernel in name for name in templates), templates
    assert any(name.startswith("conv2d") for name in templates), templates
    out = _ok(
        autoq("compile", "m.onnx", "--target", "cpu", "--tuning-records", "m.jsonl", "-o", "m.tar")
    )
    assert "m.jsonl" in out and "untuned" not in out
    _ok(autoq("run", "m.tar", "--inputs", "batch.npz", "--outputs", "out"))
    with np.load("out") as archive:
        y = archive["y"]
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession("m.onnx", settings, ["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    step = float(np.diff(np.unique(expected)).min())
    assert np.abs(y - expected).max() <= step * 1.01 and np.ptp(expected) > 4 * step
