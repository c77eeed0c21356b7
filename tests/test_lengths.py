"""How many lines a file may have, modules a folder, and parameters a function."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from inspect import CO_VARARGS, CO_VARKEYWORDS
from pathlib import Path
from types import CodeType

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(
    path
    for folder in ("autoq", "search", "templates", "scripts", "tests")
    for path in (ROOT / folder).rglob("*.py")
)
LINES, MODULES, PARAMETERS = 300, 24, 8

COMMANDS = ROOT / "autoq" / "cli"
"""Functions here take a parameter for each option of a verb."""


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many arguments a function takes, without self and cls; `*` and `**` count as one."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    bound = names[:1] in (["self"], ["cls"])
    return len(names) - bound + (given.vararg is not None) + (given.kwarg is not None)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions anywhere below a node; no expression holds one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        yield from functions(node)


def test_no_file_is_long():
    long = {str(path): text.count("\n") for path in FILES if (text := path.read_text())}
    assert long and [item for item in long.items() if item[1] > LINES] == []


def test_no_folder_holds_many_modules():
    counts = Counter(path.parent for path in FILES if path.name != "__init__.py")
    assert counts and [(str(at), n) for at, n in counts.items() if n > MODULES] == []


def is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether its parameters are the arrays of a kernel."""
    names = {ast.unparse(decorator).partition("(")[0] for decorator in function.decorator_list}
    return not names.isdisjoint({"T.jit", "T.prim_func"})


def most_parameters(code: CodeType) -> int:
    """The most that a function in a module's code takes, self and cls with them."""
    own = code.co_argcount + code.co_kwonlyargcount
    own += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    inner = (most_parameters(each) for each in code.co_consts if isinstance(each, CodeType))
    return max(own, *inner, 0)


def test_no_function_takes_many_parameters():
    """Trees, which take long to make, are looked at where the code says that there may be one."""
    texts = {path: path.read_text() for path in FILES if not path.is_relative_to(COMMANDS)}
    found = [
        (str(path.relative_to(ROOT)), function.name, parameters(function))
        for path, text in texts.items()
        if most_parameters(compile(text, str(path), "exec", dont_inherit=True)) > PARAMETERS
        for function in functions(ast.parse(text))
        if not is_kernel(function)
    ]
    assert found and [item for item in found if item[2] > PARAMETERS] == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def f(self, a, /, b, *, c): ...", 3),
        ("async def f(a, *more, **options): ...", 3),
        ("def f(): ...", 0),
    ],
)
def test_parameters_are_counted(source, count):
    (function,) = ast.parse(source).body
    assert parameters(function) == count
    assert most_parameters(compile(source, "f.py", "exec")) == count + ("self" in source)
