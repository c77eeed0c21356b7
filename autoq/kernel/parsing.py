"""A lock for what parses Python source, which CPython 3.11 cannot do in two threads at once."""

from __future__ import annotations

import threading

PARSING = threading.RLock()
"""Held while `ast.parse` may run, in a template's `build` too. The parser keeps its depth in state
of all threads: one fails with "AST constructor recursion depth mismatch" when another parses
while a callback of the garbage collector runs."""
