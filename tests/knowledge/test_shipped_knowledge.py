"""The model that ships: its size, what it decides, and who falls back to estimates."""

from __future__ import annotations

from importlib import resources

import onnx
import pytest
from onnx_models.operators import conv

from autoq import compile
from autoq.compilation.selection import DEFAULT, PREDICTED, choose
from autoq.devices import Host, resolve
from autoq.knowledge.choice import predicted, usable
from autoq.knowledge.model import LARGEST_BYTES
from autoq.knowledge.shipped import FILE, shipped_models
from autoq.records.database import Database
from autoq.report.compiled import compile_text
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.registry import matching

LAYER = Conv2d(8, 28, 28, 120, 136, 3, 3, padding=(1, 1, 1, 1), in_dtype="uint8",
               epilogue=Epilogue("uint8"))  # fmt: skip


@pytest.fixture(scope="module")
def shipped():
    (model,) = shipped_models()
    return model


def _eager(shipped, versions=None):
    """The model, deciding everything that it knows however little its choice promises."""
    versions = versions or shipped.about.versions
    return shipped.but(decides=dict.fromkeys(versions, 1.0), versions=versions)


def _host(target: str, device: str | None) -> Host:
    return Host(resolve(target).target, device)


def test_the_shipped_model_is_small_and_of_present_templates(shipped, templates):
    file = resources.files("autoq.tuning_logs") / "h200" / FILE
    assert len(file.read_bytes()) <= LARGEST_BYTES
    stale = {
        name: version for name, version in shipped.about.versions.items()
        if name not in templates or templates[name].version != version
    }  # fmt: skip
    assert not stale, f"train the model anew with scripts/train_knowledge.py: {stale}"
    assert set(shipped.about.decides) <= set(shipped.about.versions)


@pytest.mark.parametrize(
    "device, known",
    [("NVIDIA H200", True), ("NVIDIA H100 80GB HBM3", True), (None, True), ("NVIDIA A100", False)],
)
def test_devices_of_the_chip_share_the_model(shipped, device, known):
    found = usable([shipped], "sm_90a", device)
    assert (found is shipped) == known


@pytest.mark.parametrize(
    "target, device",
    [("cpu", "some processor"), ("cuda:sm_80", "NVIDIA A100"), ("cuda:sm_90a", "NVIDIA A100")],
)
def test_devices_without_records_keep_their_estimates(shipped, templates, target, device):
    """Even of a model that decides everything, whose choice would be taken elsewhere."""
    eager = _eager(shipped)
    host, listed = _host(target, device), list(templates.values())
    chosen = choose(LAYER, host, Database(()), listed, [eager])
    preferred = matching(LAYER, host.target, listed)[0]
    assert (chosen.source, chosen.template) == (DEFAULT, preferred)
    assert chosen.config == preferred.default(LAYER, host.target)
    known = choose(LAYER, _host("cuda:sm_90a", "NVIDIA H200"), Database(()), listed, [eager])
    assert known.source == PREDICTED


def test_families_that_a_model_does_not_decide_keep_their_estimates(shipped, templates):
    host, listed = _host("cuda:sm_90a", "NVIDIA H200"), list(templates.values())
    preferred = matching(LAYER, host.target, listed)[0]
    for decides, source in (({}, DEFAULT), ({preferred.name: 1.0}, PREDICTED)):
        model = shipped.but(decides=decides)
        assert choose(LAYER, host, Database(()), listed, [model]).source == source


def test_templates_of_another_version_keep_their_estimates(shipped, templates):
    host, listed = _host("cuda:sm_90a", "NVIDIA H200"), list(templates.values())
    preferred = matching(LAYER, host.target, listed)[0]
    versions = {**shipped.about.versions, preferred.name: preferred.version + 1}
    assert choose(LAYER, host, Database(()), listed, [_eager(shipped, versions)]).source == DEFAULT


def test_its_predictions_are_legal(shipped, templates):
    target = resolve("cuda:sm_90a").target
    tunable = [t for t in matching(LAYER, target, list(templates.values())) if t.tunable]
    found = predicted(shipped, LAYER, tunable, target)
    assert len(found) > 6
    assert all(one.template.space(LAYER, target).legal(one.config) for one in found)


def test_a_cpu_says_that_its_layers_are_untuned(shipped, tmp_path):
    """Through the whole of compile, where everything that ships counts."""
    onnx.save(conv((8, 6, 3, 3)), tmp_path / "m.onnx")
    report = compile(tmp_path / "m.onnx", target="cpu", output=tmp_path / "m.tar")
    assert shipped.about.arch != report.host.target.arch
    assert report.untuned and not report.predicted
    assert "layers run on an untuned default; tune them" in compile_text(report)
