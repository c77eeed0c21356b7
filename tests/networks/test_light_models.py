"""Networks of the onnx package, compiled for the CPU and run, against onnxruntime."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from onnx_models.networks import LIGHT, light_path, randomised_light
from onnx_models.oracle import output_step, random_feeds, run_onnxruntime

from autoq import Session, compile
from autoq.frontend import from_model
from autoq.graph import Layer, optimise
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

# They take long, and have no operator that neither the others nor `onnx_models` have.
LEFT_OUT = (
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "vgg19", "zfnet512",
)  # fmt: skip
# A form each, of which QOperator is read as the graph of QDQ: `graph/test_networks` has all three.
CASES = list(zip((name for name in LIGHT if name not in LEFT_OUT), ("QDQ", "float32"), strict=True))
FLOAT_TOLERANCE = 1e-4
# One step, and the rounding of the float32 numbers that are compared.
STEPS = 1.001


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chosen = os.environ.get("AUTOQ_CACHE_DIR")
    return Path(chosen) / "kernels" if chosen else tmp_path_factory.mktemp("kernels")


@pytest.mark.parametrize("name, form", CASES)
def test_compiled_model_agrees(name: str, form: str, tmp_path: Path, kernel_cache: Path) -> None:
    path = light_path(name, form, logits=True)
    report = compile(path, target="cpu", output=tmp_path / "model.tar", cache_dir=kernel_cache)
    assert report.calls
    session = Session(tmp_path / "model.tar")
    feeds = random_feeds(path)
    expected = run_onnxruntime(path, feeds)
    results = session.run(None, feeds)
    steps = output_step(path) if form != "float32" else {}
    for output, got in zip(session.get_outputs(), results, strict=True):
        want = expected[output.name]
        assert got.shape == want.shape and got.dtype == want.dtype
        allowed = FLOAT_TOLERANCE * np.abs(want).max()
        if output.name in steps:
            allowed = STEPS * steps[output.name]
        np.testing.assert_array_less(np.abs(got - want), allowed + 1e-12)


@pytest.mark.parametrize(("name", "convolutions"), [
    ("densenet121", 121), ("inception_v2", 69), ("resnet50", 53),
])  # fmt: skip
def test_networks_left_out_are_read_and_fused(name: str, convolutions: int) -> None:
    graph = optimise(from_model(randomised_light(name, rescaled=False)), parse_target("cpu"))
    found = [node.workload for node in graph.nodes if isinstance(node, Layer)]
    assert sum(isinstance(workload, Conv2d) for workload in found) == convolutions
