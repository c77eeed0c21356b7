"""Workers and the command line start without packages that others only import if they can."""

import resource
import subprocess
import sys

import pytest

from autoq.process.child import Child, Entry
from autoq.process.lean_imports import UNUSED


def serve(argument):
    """Where each module of a request lies, None if it is not imported; open files; finders."""
    import autoq.measure.compile_worker
    import autoq.measure.worker  # noqa: F401

    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    looking = [type(finder).__name__ for finder in sys.meta_path]

    def answer(names):
        found = [getattr(sys.modules.get(name), "__file__", None) for name in names]
        return found, files, looking

    return answer


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A folder on the path that has a package by every unused name, which cannot be imported."""
    for name in UNUSED:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError(__name__)")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def test_a_worker_imports_neither_torch_nor_what_xgboost_looks_for(installed):
    child = Child(Entry("test_lean_imports", "serve"))
    try:
        found, files, looking = child.call([*UNUSED, "tvm", "xgboost"], timeout=600)
    finally:
        child.kill()
    *unused, tvm, xgboost = found
    assert unused == [None] * len(UNUSED)
    assert tvm is not None and xgboost is None
    assert files == resource.getrlimit(resource.RLIMIT_NOFILE)
    assert "_BeforeTvm" not in looking


def test_the_command_line_imports_none_of_them(installed):
    command = [sys.executable, "-m", "autoq", "env"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=installed)
    assert done.returncode == 0, done.stderr


def test_the_cost_model_does_without_them(installed):
    program = """
from autoq.process.lean_imports import leave_out_unused
leave_out_unused()
import numpy as np
from autoq.search.strategies.cost_model import CostModel
model = CostModel(0)
model.fit(np.arange(8.0).reshape(8, 1), np.arange(1.0, 9.0))
assert model.fitted and model.predict(np.ones((2, 1))).shape == (2,)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=installed
    )
    assert done.returncode == 0, done.stderr
