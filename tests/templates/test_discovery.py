"""What is in a folder joins, and what cannot be imported is named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from autoq.templates import operators
from autoq.templates.discovery import modules_of
from autoq.templates.operators.add import Add
from autoq.templates.workload import Workload


def test_every_module_of_the_folder_is_imported() -> None:
    found = {module.__name__ for module in modules_of("autoq.templates.operators")}
    files = {path.stem for path in Path(operators.__file__).parent.glob("[!_]*.py")}
    assert found == {f"autoq.templates.operators.{name}" for name in files}
    assert Workload.OPERATORS["add"] is Add


def test_a_module_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "broken_operators"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "sound.py").touch()
    (folder / "torn.py").write_text("SIZE = 1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ImportError, match=r"broken_operators\.torn .*ZeroDivisionError"):
        modules_of("broken_operators")


def test_two_operators_of_one_name_are_refused() -> None:
    with pytest.raises(TypeError, match=r"two operators 'add': .*operators\.add\.Add and .*Other"):

        @dataclass(frozen=True)
        class Other(Workload, operator="add"):
            y_shape: tuple[int, ...] = (1,)
            operations: int = 0
            bytes: int = 0

    assert Workload.OPERATORS["add"] is Add
