"""Attention of a float model on the CPU against float64: lengths, masks, rows masked whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models.makers import model, node

import autoq

HEADS, DEPTH = 2, 16
LEAST = np.finfo(np.float32).min


def mask_of(kind: str, length: int) -> np.ndarray:
    """Added to scores [queries, keys]: the last third of the keys, or later ones, are hidden.

    hidden: besides, all keys of every third query by the least of floats.
    """
    mask = np.zeros((length, length), np.float32)
    if kind == "causal":
        mask[np.triu_indices(length, 1)] = -np.inf
    elif kind != "plain":
        mask[:, length - length // 3 :] = LEAST
    if kind == "hidden":
        mask[::3] = LEAST
    return mask


@pytest.mark.parametrize(
    ("kind", "length"),
    [("plain", 1), ("hidden", 1), ("plain", 65), ("causal", 65), ("padded", 65), ("hidden", 65),
     ("causal", 512), ("hidden", 512)],
)  # fmt: skip
def test_rows_on_a_cpu_are_as_float64_says(kind: str, length: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(length)
    shape = (1, HEADS, length, DEPTH)
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name in "qkv"}
    mask = mask_of(kind, length)
    nodes = [
        node("Transpose", "k", "kt", perm=[0, 1, 3, 2]), node("MatMul", "q kt", "m"),
        node("Mul", "m scale", "s"), node("Add", "s mask", "z"),
        node("Softmax", "z", "p", axis=-1), node("MatMul", "p v", "y"),
    ]  # fmt: skip
    made = model(nodes, {name: (shape, "float32") for name in "qkv"},
                 {"scale": np.float32(0.25), "mask": mask})  # fmt: skip
    onnx.save(made, tmp_path / "model.onnx")
    autoq.compile(tmp_path / "model.onnx", target="cpu", output=tmp_path / "a.autoq", jobs=1)
    (y,) = autoq.Session(tmp_path / "a.autoq").run(None, feeds)
    q, k, v = (feeds[name].astype(np.float64) for name in "qkv")
    scores = q @ k.transpose(0, 1, 3, 2) / 4
    scores = np.where(mask == LEAST, LEAST, scores + mask)  # as float32 adds them
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    np.testing.assert_allclose(y, powers / powers.sum(-1, keepdims=True) @ v, rtol=1e-4, atol=1e-5)
