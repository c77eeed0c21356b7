"""Tokens: integers that a model takes rows of its tables by."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_models.makers import model, node, normal
from onnx_models.oracle import run_onnxruntime

import autoq
from autoq.errors import InputError


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Rows of two tables for tokens, some of them masked."""
    nodes = [
        node("Gather", "w t", "a"), node("Slice", "t zero three one", "f"),
        node("Gather", "v f", "b"), node("Concat", "a b", "c", axis=1),
        node("Not", "m", "n"), node("Where", "n c low", "y"), node("ReduceSum", "t one", "s"),
    ]  # fmt: skip
    constants = {
        "w": normal(9, 24), "v": normal(9, 24), "zero": np.int64([0]), "three": np.int64([3]),
        "one": np.int64([1]), "low": np.float32(-7),
    }  # fmt: skip
    inputs = {"t": ((2, 5), "int64"), "m": ((2, 8, 1), "bool")}
    made = model(nodes, inputs, constants, ("y", "s", "n"))
    folder = tmp_path_factory.mktemp("tokens")
    onnx.save(made, folder / "tokens.onnx")
    autoq.compile(folder / "tokens.onnx", target="cpu", output=folder / "tokens.tar")
    return folder


FEEDS = {
    "t": np.int64([[0, 8, -9, 3, 1], [2, 2, -1, 7, 5]]),
    "m": np.arange(16).reshape(2, 8, 1) % 3 == 0,
}


def test_outputs_are_onnxruntimes_with_their_dtypes(path):
    expected = run_onnxruntime(path / "tokens.onnx", FEEDS)
    names = list(expected)
    found = autoq.Session(path / "tokens.tar").run(names, FEEDS)
    for value, name in zip(found, names, strict=True):
        np.testing.assert_allclose(value, expected[name], rtol=1e-6, strict=True)


@pytest.mark.parametrize("token", [9, -10, 2**40])
def test_a_token_without_a_row_is_refused(token, path):
    tokens = FEEDS["t"].copy()
    tokens[1, 2] = token
    with pytest.raises(InputError, match=rf"input 't': {token} is none of 9 places .* 1 of 10"):
        autoq.Session(path / "tokens.tar").run(None, {**FEEDS, "t": tokens})


def test_integers_beyond_32_bits_are_refused(tmp_path):
    made = model([node("Add", "x x", "y")], {"x": ((3,), "int64")}, {}, ("y",))
    onnx.save(made, tmp_path / "add.onnx")
    autoq.compile(tmp_path / "add.onnx", target="cpu", output=tmp_path / "add.tar")
    session = autoq.Session(tmp_path / "add.tar")
    (y,) = session.run(None, {"x": np.int64([-(2**30), 0, 2**29])})
    assert y.tolist() == [-(2**31), 0, 2**30]
    with pytest.raises(InputError, match=r"input 'x': 1099511627776 is beyond 32 bits"):
        session.run(None, {"x": np.int64([1, 2**40, 2])})


def test_a_mask_of_another_shape_is_refused(path):
    with pytest.raises(
        InputError, match=r"input 'm': expected bool \[2, 8, 1\], found bool \[2, 8\]"
    ):
        autoq.Session(path / "tokens.tar").run(None, {**FEEDS, "m": FEEDS["m"][..., 0]})
