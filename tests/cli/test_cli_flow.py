"""The way of a model through the verbs: quantize, tune, compile, run, logs."""

import dataclasses
import re

import numpy as np
import onnx
import onnxruntime
import pytest
from gpu_kernels import end_if_compile_only, gpu_target
from small_models import two_products
from trial_records import trials_of

from autoq.records import Journal, read_records
from autoq.templates.operators.gemm import Gemm


def _ok(screen):
    assert screen.code == 0 and screen.err == "", screen
    return screen.out


def test_from_float_model_to_outputs(autoq, folder, float_model):
    rng = np.random.default_rng(3)
    np.savez("images.npz", x=rng.standard_normal((3, 16, 8, 8)).astype(np.float32))
    x = rng.standard_normal((1, 16, 8, 8)).astype(np.float32)
    np.savez("batch.npz", x=x)
    out = _ok(autoq("quantize", float_model, "--calibration", "images.npz", "-o", "m.onnx"))
    assert out == "wrote m.onnx\n"

    tuning = ("tune", "m.onnx", "--target", "cpu", "--trials", 6, "-o", "m.jsonl", "--jobs", 2)
    out = _ok(autoq(*tuning))
    assert "tuning 2 tasks" in out and "6 trials measured, failures: none" in out
    assert len(trials_of("m.jsonl")) == 6
    out = _ok(autoq(*tuning))
    assert "6 of them in the output already" in out and "0 trials measured" in out
    assert len(trials_of("m.jsonl")) == 6

    records = ("--tuning-records", "m.jsonl")
    out = _ok(autoq("compile", "m.onnx", "--target", "cpu", *records, "-o", "m.tar"))
    assert "2 m.jsonl" in out and "untuned" not in out
    out = _ok(autoq("run", "m.tar", "--inputs", "batch.npz", "--outputs", "out"))
    assert out == "wrote out\n"
    with np.load("out") as archive:
        assert archive.files == ["y"]
        y = archive["y"]
    expected, step = _onnxruntime("m.onnx", x)
    assert y.shape == expected.shape and y.dtype == np.float32
    assert np.abs(y - expected).max() <= step * 1.01
    assert np.ptp(expected) > 4 * step
    listing = {path.name for path in folder.iterdir()}
    assert listing == {"images.npz", "batch.npz", "m.onnx", "m.jsonl", "m.tar", "out"}


@pytest.mark.gpu
def test_products_from_float_to_outputs_on_a_gpu(autoq, folder):
    end_if_compile_only()
    gpu_target()
    onnx.save(two_products(64, 128), "float.onnx")
    rng = np.random.default_rng(4)
    x = rng.standard_normal((64, 128)).astype(np.float32)
    np.savez("batch.npz", x=x)
    _ok(autoq("quantize", "float.onnx", "--calibration", "batch.npz", "-o", "m.onnx"))
    out = _ok(autoq("tune", "m.onnx", "--target", "cuda", "--trials", 6, "-o", "m.jsonl"))
    assert "6 trials measured, failures: none" in out
    records = ("--tuning-records", "m.jsonl", "--no-shipped-records")
    out = _ok(autoq("compile", "m.onnx", "--target", "cuda", *records, "-o", "m.tar"))
    assert "m.jsonl" in out and "untuned" not in out
    _ok(autoq("run", "m.tar", "--inputs", "batch.npz", "--outputs", "out"))
    with np.load("out") as archive:
        y = archive["y"]
    expected, step = _onnxruntime("m.onnx", x)
    assert np.abs(y - expected).max() <= step * 1.01
    assert np.ptp(expected) > 4 * step


def _onnxruntime(path, x):
    """onnxruntime's exact answer, and the size of one quantisation step of it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    values = np.unique(expected)
    return expected, float(np.diff(values).min())


def test_run_prints_times_and_layers(autoq, artifact):
    out = _ok(autoq("run", artifact, "--print-time", "--profile", "--repeat", 3))
    assert re.search(r"^time: [\d.]+ ms \(median of 3,", out, re.MULTILINE)
    layers = [line.split()[0] for line in out.splitlines() if "conv2d_" in line]
    assert layers == ["conv", "fc"]
    assert out.splitlines()[-1].startswith("total")


@pytest.mark.parametrize("mode", ["random", "ones", "zeros"])
def test_fill_modes(autoq, folder, artifact, mode):
    _ok(autoq("run", artifact, "--fill-mode", mode, "--outputs", f"{mode}.npz"))
    np.savez("x.npz", x=np.full((1, 16, 8, 8), mode == "ones", np.float32))
    _ok(autoq("run", artifact, "--inputs", "x.npz", "--outputs", "same.npz"))
    with np.load(f"{mode}.npz") as filled, np.load("same.npz") as given:
        assert np.array_equal(filled["y"], given["y"]) == (mode != "random")


def test_quantize_without_calibration_warns(autoq, float_model):
    screen = autoq("quantize", float_model, "-o", "m.onnx", "--activation", "int8",
                   "--format", "QOperator", "--per-tensor")  # fmt: skip
    assert screen.code == 0 and screen.out == "wrote m.onnx\n", screen
    assert screen.err.startswith("warning: calibrated on random numbers"), screen
    screen = autoq("compile", "m.onnx", "--target", "cpu", "-o", "m.tar")
    assert screen.code == 0, screen


def test_tasks_are_listed_with_what_is_known(autoq, model, records):
    out = _ok(autoq("tune", model, "--target", "cpu", "--tasks", "list"))
    rows = out.splitlines()[2:]
    assert [row.split()[:2] for row in rows] == [["0", "conv2d"], ["1", "gemm"]]
    assert all(row.endswith("untuned default") for row in rows)
    out = _ok(autoq("tune", model, "--target", "cpu", "--tasks", "list",
                    "--tuning-records", records))  # fmt: skip
    assert all(row.endswith(str(records)) for row in out.splitlines()[2:])


def test_a_part_of_the_tasks_is_tuned(autoq, model):
    _ok(autoq("tune", model, "--target", "cpu", "--tasks", "1", "--trials", 3, "-o", "m.jsonl",
              "--tuner", "random"))  # fmt: skip
    assert {type(record.workload) for record in trials_of("m.jsonl")} == {Gemm}


def test_compile_says_which_layers_are_untuned(autoq, model):
    out = _ok(autoq("compile", model, "--target", "cpu", "-o", "m.tar"))
    assert "2 layers run on an untuned default" in out


def test_records_of_another_device_are_counted_and_not_used(autoq, folder, model, records):
    mine = read_records(records).records
    other = dataclasses.replace(mine[0].device, arch="other-" + mine[0].device.arch)
    foreign = [dataclasses.replace(record, device=other) for record in mine]
    Journal(folder / "foreign.jsonl").append(foreign)
    out = _ok(autoq("compile", model, "--target", "cpu", "-o", "m.tar",
                    "--tuning-records", "foreign.jsonl"))  # fmt: skip
    assert "2 layers run on an untuned default" in out
    assert f"records not used: {len(mine)} of arch other-" in out


def test_env_names_versions_and_devices(autoq):
    out = _ok(autoq("env"))
    for name in ("autoq:", "apache-tvm:", "python:", "cpu:", "nvcc:", "cuda driver:"):
        assert name in out
    assert "not installed" not in out
