"""A kernel that ends at once unless a word in memory says that it is wanted."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.errors import BuildError
from autoq.templates.cuda.device.functions import device_function
from autoq.templates.cuda.device.launch.dependent_launch import can_overlap
from autoq.templates.target import Target

_WAIT = 'asm volatile("griddepcontrol.wait;" : : : "memory");'
_SOURCE = r"""
__device__ __forceinline__ void leave_unless_@(const int* wanted, int word) {
  WAIT
  if (*reinterpret_cast<const volatile int*>(wanted + word) == 0) asm volatile("exit;");
}
"""
_BEFORE_CODE = ("ScopeIdDefStmt", "AllocBuffer", "DeclBuffer")
"""Statements that declare what a kernel has: its threads and its memory."""


def guarded(function: PrimFunc, words: int, word: int, target: Target) -> PrimFunc:
    """The function with one parameter more in front, int32 [words]; ends where `word` of it is 0.

    All threads leave before they do anything. Raises BuildError for a function with no device code
    of one kernel.
    """
    wanted = tirx.decl_buffer((words,), "int32", name="wanted", data_alignment=16)
    source = _SOURCE.replace("WAIT", _WAIT if can_overlap(target) else "")
    leave = device_function("leave_unless", source)
    call = T.cuda.func_call(leave.name, wanted.data, word, source_code=leave.source)
    body = _entered(function.body, tirx.Evaluate(call))
    if body is None:
        raise BuildError("a kernel to guard has no device code")
    return PrimFunc([wanted, *function.params], body, function.ret_type, function.attrs)


def _entered(statement: Any, first: Any) -> Any:
    """The statement with another one at the start of its device code; None without such code."""
    kind = type(statement).__name__
    if kind == "SeqStmt":
        for place, item in enumerate(statement.seq):
            found = _entered(item, first)
            if found is not None:
                seq = list(statement.seq)
                return tirx.SeqStmt([*seq[:place], found, *seq[place + 1 :]])
    elif kind == "AttrStmt":
        body = statement.body
        if statement.attr_key == "tirx.device_entry":
            changed = _behind_declarations(body, first)
        else:
            changed = _entered(body, first)
        if changed is not None:
            return tirx.AttrStmt(statement.node, statement.attr_key, statement.value, changed)
    return None


def _behind_declarations(body: Any, first: Any) -> Any:
    if type(body).__name__ == "AttrStmt":
        inner = _behind_declarations(body.body, first)
        return tirx.AttrStmt(body.node, body.attr_key, body.value, inner)
    items = list(body.seq) if type(body).__name__ == "SeqStmt" else [body]
    place = 0
    while place < len(items) and type(items[place]).__name__ in _BEFORE_CODE:
        place += 1
    return tirx.SeqStmt([*items[:place], first, *items[place:]])
