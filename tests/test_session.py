"""Session on the CPU: feeds and outputs, what it refuses, profile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm_ffi
from models import resnet_path

from autoq import Session, compile
from autoq.errors import ArtifactError, InputError

SHAPE = (1, 3, 32, 32)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("artifact") / "model.tar"
    compile(resnet_path(18, "QDQ", 32), target="cpu", output=path)
    return path


@pytest.fixture(scope="module")
def session(artifact: Path) -> Session:
    return Session(artifact)


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SHAPE, np.float32)


def test_inputs_and_outputs_are_described(session: Session) -> None:
    assert [(i.name, i.shape, i.dtype) for i in session.get_inputs()] == [
        ("input", SHAPE, "float32")
    ]
    assert [(o.name, o.shape) for o in session.get_outputs()] == [("output", (1, 1000))]


def test_runs_do_not_share_outputs(session: Session) -> None:
    (first,) = session.run(None, {"input": image(0)})
    kept = first.copy()
    (second,) = session.run(["output"], {"input": image(1)})
    assert (first != second).any()
    np.testing.assert_array_equal(first, kept)
    (again,) = session.run(None, {"input": image(0)})
    np.testing.assert_array_equal(again, kept)


def test_dlpack_and_strided_numpy_feeds(session: Session) -> None:
    (expected,) = session.run(None, {"input": image()})
    (got,) = session.run(None, {"input": tvm_ffi.from_dlpack(image())})
    np.testing.assert_array_equal(got, expected)
    strided = np.repeat(image(), 2, axis=3)[..., ::2]
    assert not strided.flags.c_contiguous
    (got,) = session.run(None, {"input": strided})
    np.testing.assert_array_equal(got, expected)


def test_own_buffer_is_fed_in_place(session: Session) -> None:
    (expected,) = session.run(None, {"input": image(3)})
    buffer = session.buffer("input")
    buffer[:] = image(3)
    (got,) = session.run(None, {"input": buffer})
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({}, "inputs missing: \\['input'\\]"),
        ({"input": image(), "more": image()}, "unknown: \\['more'\\]"),
        ({"input": image()[:, :2]}, "expected float32 .*found float32 \\[1, 2, 32, 32\\]"),
        ({"input": image().astype(np.float64)}, "found float64"),
        ({"input": [1.0]}, "found list"),
        ({"input": None}, "found NoneType"),
    ],
)
def test_wrong_feeds_are_refused(session: Session, feeds: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        session.run(None, feeds)


def test_unknown_outputs_and_buffers_are_refused(session: Session) -> None:
    with pytest.raises(InputError, match="no output 'logits'"):
        session.run(["logits"], {"input": image()})
    with pytest.raises(InputError, match="no input or output 'logits'"):
        session.buffer("logits")


def test_profile_covers_every_step(session: Session) -> None:
    layers = session.profile(repeat=2)
    assert [layer.step for layer in layers] == list(session.plan.steps)
    assert all(layer.seconds > 0 for layer in layers)


def test_artifact_of_a_cpu_with_more_features_is_refused(artifact: Path, monkeypatch) -> None:
    monkeypatch.setattr("autoq.runtime.cpu_features.host_features", lambda: frozenset({"sse2"}))
    with pytest.raises(ArtifactError, match="this CPU lacks"):
        Session(artifact)


def test_compile_is_deterministic(artifact: Path, tmp_path: Path) -> None:
    compile(resnet_path(18, "QDQ", 32), target="cpu", output=tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == artifact.read_bytes()
