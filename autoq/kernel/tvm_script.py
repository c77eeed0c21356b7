"""Short cuts in TVM's parser of kernels, which takes most of the time of a template's `build`.

TVM 0.27 describes every caller, with the source around it, wherever it looks for one of them. Each
call of a `T.inline` function parses its source anew, and each part of an expression becomes a
Python expression of its own, which is compiled and evaluated.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import linecache
import pickle
import sys
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any

from tvm.script.ir_builder import IRBuilder, base
from tvm.script.parser.core import doc, evaluator
from tvm.script.parser.core.parser import Parser, ScriptMacro
from tvm.tirx.script.builder import ir

from autoq.kernel.tvm_expressions import assigned, evaluate


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


class _Place:
    """The place of a node in the source, in force for what is made within."""

    def __init__(self, builder: Any, span: Any) -> None:
        self._builder, self._span = builder, span

    def __enter__(self) -> None:
        base._ffi_api.IRBuilderPushSourceSpan(self._builder, self._span)

    def __exit__(self, *_: object) -> None:
        base._ffi_api.IRBuilderPopSourceSpan(self._builder)


_QUICK = "_autoq_quick"
"""The attribute of a function that is called in the place of TVM's."""
_NOWHERE = contextlib.nullcontext()


def _place(slow: Callable[..., Any], self: Parser, node: Any) -> Any:
    """As TVM's, which makes two generators of it."""
    numbers = getattr(node, "lineno", None), getattr(node, "col_offset", None)
    if None in numbers or not IRBuilder.is_in_scope():
        return _NOWHERE
    return _Place(IRBuilder.current(), self.diag.source.to_span(node))


SHORT_CUTS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (ScriptMacro, "_find_parser_def", _find_parser),
    (ir, "_record_meta_resource", _record_resource),
    (doc, "parse", _parse),
    (evaluator, "_eval_assign", assigned),
    (evaluator.ExprEvaluator, "eval", evaluate),
    (Parser, "with_source_span", _place),
)
"""Where TVM keeps a function, its name, and what is called in its place, with it as the first."""


def quicken_parser() -> None:
    """Take the short cuts from now on; where a TVM has no such function, it is left alone."""
    for owner, name, quick in SHORT_CUTS:
        slow = getattr(owner, name, None)
        if slow is not None and not hasattr(slow, _QUICK):
            setattr(owner, name, _instead_of(slow, quick))


def _instead_of(slow: Callable[..., Any], quick: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(slow)
    def function(*args: Any, **kwargs: Any) -> Any:
        return quick(slow, *args, **kwargs)

    setattr(function, _QUICK, True)
    return function
