"""Short cuts in TVM's parser of kernels, which takes most of the time of a template's `build`.

TVM 0.27 describes every caller, with the source around it, wherever it looks for one of them. Each
call of a `T.inline` function parses its source anew, and each part of an expression becomes a
Python expression of its own, which is compiled and evaluated.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import pickle
import sys
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any

from tvm.script.parser.core import doc, evaluator
from tvm.script.parser.core.parser import ScriptMacro
from tvm.tirx.script.builder import ir

_LEAVES = tuple(
    getattr(doc, name)
    for name in ("Constant", "expr_context", "operator", "boolop", "unaryop", "cmpop")
)
_UNKNOWN = object()
# A macro finds its parser among the globals of its callers, so that calls have to be evaluated.
_CALL = compile("__autoq_function(*__autoq_values, **__autoq_named)", "<autoq>", "eval")


def _find_parser(_: Callable[..., Any], macro: Any) -> Any:
    """The innermost caller's parser, as `ScriptMacro._find_parser_def` finds it."""
    name = macro.parser_object_name
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        parser = frame.f_globals.get(name)
        if parser is not None:
            return parser
        frame = frame.f_back
    raise RuntimeError(f"{name} not available")


def _record_resource(slow: Callable[..., None], value: Any, skip_frames: int = 2) -> None:
    """Note where a buffer of a meta class is made, describing that place alone."""
    scope = ir._current_meta_construction_scope()
    if scope is None:
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in (__file__, ir.__file__):
        frame = frame.f_back
    if frame is None:
        slow(value, skip_frames)
        return
    found = inspect.getframeinfo(frame, context=0)
    line = linecache.getline(found.filename, found.lineno)
    positions = getattr(found, "positions", None)
    scope.record(
        value,
        SimpleNamespace(
            filename=found.filename, lineno=found.lineno, positions=positions, code_context=[line]
        ),
    )


def _parse(
    slow: Callable[..., Any], source: str, filename: str = "<unknown>", mode: str = "exec"
) -> Any:
    """A tree of the caller's own, which may change it."""
    return pickle.loads(_pickled(slow, source, filename, mode))


@functools.lru_cache(maxsize=1024)
def _pickled(slow: Callable[..., Any], source: str, filename: str, mode: str) -> bytes:
    return pickle.dumps(slow(source, filename, mode), pickle.HIGHEST_PROTOCOL)


def _visit(slow: Callable[..., Any], self: evaluator.ExprEvaluator, node: Any) -> Any:
    """What evaluates to itself has no place in the source to note."""
    if isinstance(node, _LEAVES) or (type(node) is doc.Name and node.id in self.value_table):
        return node
    return slow(self, node)


def _eval_expr(slow: Callable[..., Any], node: Any, table: dict[str, Any] | None) -> Any:
    """An expression of names and constants, which is all that the evaluator leaves of most."""
    found = _UNKNOWN if table is None else _value_of(node, table)
    return slow(node, table) if found is _UNKNOWN else found


def _value_of(node: Any, table: dict[str, Any]) -> Any:
    kind = type(node)
    if kind is doc.Attribute:
        value = _leaf(node.value, table)
        return value if value is _UNKNOWN else getattr(value, node.attr)
    if kind is doc.Subscript:
        value, index = _leaf(node.value, table), _leaf(node.slice, table)
        return _UNKNOWN if value is _UNKNOWN or index is _UNKNOWN else value[index]
    if kind is not doc.Call:
        return _leaf(node, table)
    function = _leaf(node.func, table)
    values = [_leaf(item, table) for item in node.args]
    named = {item.arg: _leaf(item.value, table) for item in node.keywords}
    parts = (function, *values, *named.values())
    if None in named or any(part is _UNKNOWN for part in parts):
        return _UNKNOWN
    table.update(__autoq_function=function, __autoq_values=values, __autoq_named=named)
    return eval(_CALL, table)


def _leaf(node: Any, table: dict[str, Any]) -> Any:
    if type(node) is doc.Name:
        return table.get(node.id, _UNKNOWN)
    return node.value if type(node) is doc.Constant else _UNKNOWN


SHORT_CUTS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (ScriptMacro, "_find_parser_def", _find_parser),
    (ir, "_record_meta_resource", _record_resource),
    (doc, "parse", _parse),
    (evaluator.ExprEvaluator, "_visit", _visit),
    (evaluator, "_eval_expr", _eval_expr),
)
"""Where TVM keeps a function, its name, and what is called in its place, with it as the first."""


def quicken_parser() -> None:
    """Take the short cuts from now on; where a TVM has no such function, it is left alone."""
    for owner, name, quick in SHORT_CUTS:
        slow = getattr(owner, name, None)
        if slow is not None and not hasattr(slow, "__wrapped__"):
            setattr(owner, name, _instead_of(slow, quick))


def _instead_of(slow: Callable[..., Any], quick: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(slow)
    def function(*args: Any, **kwargs: Any) -> Any:
        return quick(slow, *args, **kwargs)

    return function
