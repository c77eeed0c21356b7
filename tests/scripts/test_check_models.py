"""A form that a quantiser cannot make costs the check of exported networks its own row alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import check_models
import forms
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper


def _product(folder: Path, name: str) -> None:
    """A product of 16 columns as an exporter writes it, and its inputs."""
    weight = np.random.default_rng(0).normal(size=(16, 16)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["input", "weight"], ["output"])], name,
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [4, 16])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [4, 16])],
        [onnx.numpy_helper.from_array(weight, "weight")],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / f"{name}.onnx")
    np.savez(folder / f"{name}.npz", input=np.ones((4, 16), np.float32))


def test_check_goes_on_past_a_form_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        _product(tmp_path, name)
    make = forms.FORMS["int8"]

    def fail_once(plain: Path, feeds: forms.Feeds, output: Path) -> None:
        if plain.stem != "first":
            make(plain, feeds, output)
        else:
            fail(output)

    def fail(output: Path) -> NoReturn:
        output.write_bytes(b"half a model")
        raise KeyError("no calibration table")

    monkeypatch.setitem(forms.FORMS, "int8", fail_once)
    rows = tmp_path / "rows.json"
    words = ["check_models.py", str(tmp_path), "--forms", "int8,float", "--output", str(rows)]
    monkeypatch.setattr("sys.argv", words)

    assert check_models.main() == 1

    verdicts = {row["case"]: row["verdict"] for row in json.loads(rows.read_text())["cases"]}
    assert verdicts == {
        "first.int8": "form not made", "first": "agrees",
        "second.int8": "agrees", "second": "agrees",
    }  # fmt: skip
    assert "no calibration table" in rows.read_text()
    assert not list(tmp_path.glob("first.int8*"))
