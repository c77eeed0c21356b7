"""Only an operator's own module and its templates know of which class a workload is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import autoq
from autoq.templates.discovery import modules_of
from autoq.templates.workload import Workload

FOLDER = Path(autoq.__file__).parent


def classes_asked_for(source: str) -> Iterator[str]:
    """Names of the classes that `isinstance` is given in a source."""
    for node in ast.walk(ast.parse(source)):
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if called and node.func.id == "isinstance":
            for name in ast.walk(node.args[1]):
                if isinstance(name, ast.Name):
                    yield name.id


def test_nobody_asks_for_the_class_of_a_workload() -> None:
    modules_of("autoq.templates.operators")
    operators = {cls.__name__ for cls in Workload.OPERATORS.values()} | {"Product"}
    sources = {path: path.read_text() for path in FOLDER.rglob("*.py")}
    assert len(sources) > 300
    for path, source in sources.items():
        asked = operators.intersection(classes_asked_for(source))
        assert not asked, f"{path} asks for {', '.join(sorted(asked))}; let the operator say it"


def test_the_question_is_recognised() -> None:
    source = "if isinstance(x, Conv2d | Gemm) or isinstance(y, (Add, int)):\n    pass\n"
    assert set(classes_asked_for(source)) == {"Conv2d", "Gemm", "Add", "int"}
