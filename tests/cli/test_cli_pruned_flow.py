"""The way of a pruned model through the verbs: prune, quantize, tune, compile, run."""

import numpy as np
import onnx
import onnxruntime
import pytest
from gpu_kernels import end_if_compile_only, gpu_target
from small_models import two_products
from trial_records import trials_of

from autoq.models import bert, resnet

DEPTH = 96
NETWORKS = {
    "resnet18": (lambda: resnet(18, image=64, batch=2), (2, 3, 64, 64)),
    "bert": (lambda: bert(2, 64, 256, 4, batch=2, vocabulary=500), (2, 64)),
}
"""Float models with the shape of their input, tokens where that has two axes."""
ALLOWED_ERROR = 0.03
"""In the mean, of the root mean square: roundings that fall the other way spread over layers."""


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
    expected = _exactly("m.onnx", {"x": x})
    step = float(np.diff(np.unique(expected)).min())
    assert np.abs(y - expected).max() <= step * 1.01 and np.ptp(expected) > 4 * step


@pytest.mark.gpu
@pytest.mark.parametrize("pattern", ["tw", "tvw"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_from_dense_to_outputs_on_a_gpu(autoq, folder, name, pattern):
    end_if_compile_only()
    gpu_target()
    make, shape = NETWORKS[name]
    onnx.save(make(), "dense.onnx")
    rng = np.random.default_rng(5)
    x = rng.integers(0, 500, shape) if len(shape) == 2 else rng.standard_normal(shape, np.float32)
    np.savez("batch.npz", input=x)
    pruning = ("--pattern", pattern, "--granularity", 64, "--sparsity", 0.75, "--joint-channels")
    _ok(autoq("prune", "dense.onnx", "-o", "pruned.onnx", *pruning))
    _ok(autoq("quantize", "pruned.onnx", "--calibration", "batch.npz", "-o", "m.onnx"))
    out = _ok(autoq("tune", "m.onnx", "--target", "cuda", "--trials", 12, "-o", "m.jsonl"))
    assert "12 trials measured, failures: none" in out
    records = ("--tuning-records", "m.jsonl")
    _ok(autoq("compile", "m.onnx", "--target", "cuda", *records, "-o", "m.tar"))
    _ok(autoq("run", "m.tar", "--inputs", "batch.npz", "--outputs", "out"))
    with np.load("out") as archive:
        y = archive["output"]
    expected = _exactly("m.onnx", {"input": x})
    spread = float(np.sqrt((expected.astype(np.float64) ** 2).mean()))
    assert y.shape == expected.shape and np.abs(y - expected).mean() < ALLOWED_ERROR * spread


def _exactly(path, feeds):
    """onnxruntime's answer by plain operators."""
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, settings, ["CPUExecutionProvider"])
    return session.run(None, feeds)[0]
