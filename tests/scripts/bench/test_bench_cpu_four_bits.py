"""The benchmark of weights of 4 bits on the CPU, over products small enough for a test."""

from __future__ import annotations

import json
import sys

import bench_cpu_four_bits
import numpy as np
import pytest
from bench_cpu_four_bits import Product, exact, model

SMALL = Product(3, 40, 64)
ODD = Product(2, 24, 96, 32, zero_points=True, dtype="float16")


def test_a_case_for_each_product_and_number_of_threads(monkeypatch, tmp_path):
    monkeypatch.setattr(bench_cpu_four_bits, "PRODUCTS", (SMALL, ODD))
    monkeypatch.setattr(bench_cpu_four_bits, "measured_in_child", bench_cpu_four_bits.measured)
    monkeypatch.setattr(bench_cpu_four_bits, "_SECONDS", 0.1)
    output = tmp_path / "times.json"
    output.write_text(json.dumps({"cases": [{"case": "of another run", "threads": 1}]}))
    monkeypatch.setattr(sys, "argv", ["bench", "--output", str(output), "--only", "float"])
    assert bench_cpu_four_bits.main() == 0
    kept, *cases = json.loads(output.read_text())["cases"]
    assert kept == {"case": "of another run", "threads": 1}
    assert [(case["case"], case["threads"]) for case in cases] == [
        (str(product), threads) for product in (SMALL, ODD) for threads in (1, 2)
    ]
    for case in cases:
        for name in ("autoq", "onnxruntime", "onnxruntime_bytes"):
            assert 0 < case[name]["cpu_us_least"] <= case[name]["cpu_us_median"]
        assert case["autoq"]["largest_error"] < 5e-3


@pytest.mark.parametrize("product", [SMALL, ODD], ids=str)
def test_what_is_exact_is_what_the_model_says(product, tmp_path):
    (tmp_path / "product.onnx").write_bytes(model(product).SerializeToString())
    session = bench_cpu_four_bits.onnxruntime_session(tmp_path / "product.onnx", 1)
    x = np.random.default_rng(2).standard_normal((product.m, product.k)).astype(product.dtype)
    right = exact(product, x)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], right, rtol=2e-3, atol=2e-3)


def test_a_wrong_artifact_is_not_timed(monkeypatch, tmp_path):
    class Wrong:
        def __init__(self, path):
            pass

        def run(self, *arguments):
            return [np.zeros((SMALL.m, SMALL.n), np.float32)]

    monkeypatch.setattr(bench_cpu_four_bits, "Session", Wrong)
    with pytest.raises(SystemExit, match="errors"):
        bench_cpu_four_bits.measured(SMALL, 1, tmp_path)
