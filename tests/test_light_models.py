"""Networks of the onnx package, compiled for the CPU and run, against onnxruntime.

`tests/graph/test_networks.py` reads all of them in every form.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from models import FORMS, LIGHT, light_path, output_step, random_feeds, run_onnxruntime

from autoq import Session, compile

# They take minutes, and have no operator that others lack.
LEFT_OUT = ("vgg19", "zfnet512")
# The large ones in one form of the three.
ONE_FORM = ("bvlc_alexnet", "densenet121", "inception_v1")
CASES = [
    (name, form)
    for name in LIGHT
    for form in FORMS
    if name not in LEFT_OUT and (form == "QDQ" or name not in ONE_FORM)
]
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
    assert report.steps
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
