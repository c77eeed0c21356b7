"""The benchmark of whole transformers, over networks small enough for a test, on the CPU."""

from __future__ import annotations

import json
import os
import sys

import bench_transformers
import numpy as np
import onnx
import pytest
from transformer_networks import models as transformer_models

from autoq import Session, compile, models


def small(form):
    """A transformer of one layer whose products take MatMulNBits' groups."""
    make = (
        (lambda: models.vit(layers=1, width=32, heads=2, image=32, batch=2, classes=10))
        if form == "int8"
        else (lambda: models.bert(length=8, width=32, heads=2, vocabulary=50))
    )
    shape = (2, 3, 32, 32) if form == "int8" else (1, 8)
    return transformer_models.Case(f"small {form}", "vit", make, shape, form)


@pytest.fixture
def few_tokens(monkeypatch):
    monkeypatch.setattr(transformer_models, "VOCABULARY", 50)


def operators(path):
    return {node.op_type for node in onnx.load(path).graph.node}


def test_a_model_of_four_bits_runs_and_agrees(tmp_path, few_tokens):
    """That of bytes does where its row is made."""
    case = small("4bit")
    path = transformer_models.made(case, "small", tmp_path)
    assert transformer_models.made(case, "small", tmp_path) == path
    assert "MatMulNBits" in operators(path)
    compile(path, target="cpu", output=tmp_path / "small.tar")
    errors = bench_transformers.errors_of(case, path, Session(tmp_path / "small.tar"))
    assert errors["mean_error"] <= bench_transformers.ALLOWED_ERROR


def test_rows_join_those_of_the_file(monkeypatch, tmp_path, few_tokens):
    monkeypatch.setattr(bench_transformers, "cases", lambda *_: {"small": small("int8")})
    monkeypatch.setattr(bench_transformers, "_CPU_SECONDS", 0.1)

    def here(name, threads, options):
        monkeypatch.setenv("TVM_NUM_THREADS", str(threads))
        folder = options.models
        return bench_transformers.on_cpu(
            small("int8"), folder / f"{name}.onnx", folder / f"{name}.cpu.tar"
        )

    monkeypatch.setattr(bench_transformers, "on_cpu_in_child", here)
    output = tmp_path / "times.json"
    kept = {"case": "of another run", "autoq_us": 1.0, "peers": {}}
    old = {"case": "small int8", "threads": 1, "autoq_us": 1.0, "peers": {}}
    output.write_text(json.dumps({"cases": [kept, old]}))
    monkeypatch.setattr(sys, "argv", [
        "bench", "--target", "cpu", "--cases", "small", "--models", str(tmp_path), "--threads", "1",
        "--output", str(output),
    ])  # fmt: skip
    bench_transformers.main()
    first, case = json.loads(output.read_text())["cases"]
    assert first == kept and case["case"] == "small int8" and case["threads"] == 1
    assert case["autoq_us"] > 1 and case["peers"]["onnxruntime"] > 0
    assert case["mean_error"] <= bench_transformers.ALLOWED_ERROR
    assert "QuantizeLinear" in operators(tmp_path / "small.onnx")
    assert case["layers"] and os.environ["TVM_NUM_THREADS"] == "1"


def test_a_wrong_artifact_is_not_timed(tmp_path):
    case = small("int8")
    path = transformer_models.made(case, "small", tmp_path)
    plain, _ = transformer_models.expected(case, path)

    class Wrong:
        def run(self, *arguments):
            return [1.5 * plain]

    with pytest.raises(SystemExit, match="errors"):
        bench_transformers.errors_of(case, path, Wrong())
    assert np.isfinite(plain).all()
