"""Paths of the Python API: text is as good as a Path, and what is no path is one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from autoq import Session, compile, tune
from autoq.errors import AutoqError
from autoq.frontend.read import read_model
from autoq.hardware_file import read_hardware
from autoq.products.sparse_file import read_smtx
from autoq.records.lines import read_records
from autoq.records.recorded_space import read_space
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.tuner import list_tasks

WORK = [Gemm(16, 24, 32, epilogue=Epilogue(out_dtype="int32"))]
NO_PATHS = {
    "a number": (3, "no path of a file"),
    "a character that no name has": ("a\0b", "no path of a file"),
    "a name too long": ("x" * 5000, "the name is too long"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("form", [str, Path])
def test_a_model_is_tuned_compiled_and_run_by_paths_of_either_form(folder, form):
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), "model.onnx")
    tune(WORK, trials=2, output=form("log.jsonl"), target="cpu", cache_dir=form("tuned"), jobs=1)
    (row,) = list_tasks(WORK, target="cpu", tuning_records=form("log.jsonl"))
    assert row.trials == 2
    compile(
        form("model.onnx"), target="cpu", output=form("model.tar"), cache_dir=form("compiled"),
        tuning_records=form("log.jsonl"),
    )  # fmt: skip
    assert list(Path("tuned").iterdir()) and list(Path("compiled").iterdir())
    (result,) = Session(form("model.tar")).run(None, {"x": -np.eye(2, 3, dtype=np.float32)})
    assert (result == 0).all()


@pytest.mark.parametrize("case", NO_PATHS)
def test_what_is_no_path_is_one_line(folder, case):
    path, words = NO_PATHS[case]
    calls = (
        lambda: tune(WORK, trials=1, output=path, target="cpu"),
        lambda: tune(WORK, trials=1, output="log.jsonl", target="cpu", cache_dir=path),
        lambda: compile("m.onnx", target="cpu", output=path),
        lambda: compile("m.onnx", target="cpu", output="m.tar", cache_dir=path),
        lambda: Session(path),
    )
    for call in calls:
        with pytest.raises(AutoqError, match=words) as raised:
            call()
        assert len(str(raised.value)) < 200 and "\n" not in str(raised.value)
    assert not list(folder.iterdir())


def test_a_record_file_of_no_name_is_one_line(folder):
    with pytest.raises(AutoqError, match="cannot read the record file"):
        list_tasks(WORK, target="cpu", tuning_records=["a\0b"])


@pytest.mark.parametrize(
    "reader", [read_model, read_hardware, read_space, read_smtx, read_records, Session]
)
def test_a_device_is_not_read_as_it_may_never_end(reader):
    with pytest.raises(AutoqError, match=r"/dev/null: .*is no ordinary file") as raised:
        reader("/dev/null")
    assert "\n" not in str(raised.value)
