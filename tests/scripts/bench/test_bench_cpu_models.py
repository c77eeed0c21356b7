"""The benchmark of whole networks on the CPU, over a network small enough for a test."""

from __future__ import annotations

import json
import sys

import bench_cpu_models
import pytest

from autoq.models import mlp_mixer


def test_a_case_for_each_form_and_number_of_threads(monkeypatch, tmp_path):
    def small():
        return mlp_mixer(layers=1, width=32, hidden=(16, 64), image=64, classes=10)

    monkeypatch.setattr(bench_cpu_models, "NETWORKS", {"small": ("small", small, (1, 3, 64, 64))})
    monkeypatch.setattr(bench_cpu_models, "measured_in_child", bench_cpu_models.measured)
    monkeypatch.setattr(bench_cpu_models, "_SECONDS", 0.1)
    output = tmp_path / "times.json"
    output.write_text(json.dumps({"cases": [{"case": "of another run", "threads": 1}]}))
    monkeypatch.setattr(sys, "argv", ["bench", "--output", str(output)])
    assert bench_cpu_models.main() == 0
    result = json.loads(output.read_text())
    kept, *cases = result["cases"]
    assert kept == {"case": "of another run", "threads": 1}
    assert [case["threads"] for case in cases] == [1, 2, 1, 2]
    assert len({case["case"] for case in cases}) == 2
    for case in cases:
        for name in ("untuned", "onnxruntime"):
            times = case[name]
            assert 0 < times["cpu_us_least"] <= times["cpu_us_median"]
            assert 0 < times["wall_us_least"] <= times["wall_us_median"]
        assert case["untuned"]["mean_error"] <= bench_cpu_models.ALLOWED_ERROR


def test_a_wrong_artifact_is_not_timed(monkeypatch, tmp_path):
    monkeypatch.setattr(bench_cpu_models, "NETWORKS", {
        "small": ("small", lambda: mlp_mixer(1, 32, (16, 64), 64, classes=10), (1, 3, 64, 64)),
    })  # fmt: skip
    model = bench_cpu_models.make("small", "products alone", tmp_path)

    class Wrong:
        def __init__(self, path):
            self.peer = bench_cpu_models.onnxruntime_session(path, 1)

        def run(self, *arguments):
            return [1.5 * y for y in self.peer.run(*arguments)]

    monkeypatch.setattr(bench_cpu_models, "Session", Wrong)
    with pytest.raises(SystemExit, match="errors"):
        bench_cpu_models.measured(model, {"wrong": model}, 1)
