"""A short cut in TVM's parser of kernels.

Each call of a `T.inline` function looks among its callers for the parser that is at work. TVM 0.27
has `inspect` describe all of them for that, with the source around each, which is two thirds of the
time that a template's `build` takes.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from tvm.script.parser.core.parser import ScriptMacro


def _find_parser(macro: Any) -> Any:
    """The innermost caller's parser, as `ScriptMacro._find_parser_def` finds it."""
    name = macro.parser_object_name
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        parser = frame.f_globals.get(name)
        if parser is not None:
            return parser
        frame = frame.f_back
    raise RuntimeError(f"{name} not available")


def quicken_macros() -> None:
    """Take the short cut from now on; a TVM that has no such search is left alone."""
    if hasattr(ScriptMacro, "_find_parser_def"):
        ScriptMacro._find_parser_def = _find_parser
