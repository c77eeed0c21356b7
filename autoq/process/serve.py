"""The child's end of `Child`: reads requests from standard input and answers them."""

from __future__ import annotations

import ctypes
import gc
import importlib
import logging
import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from autoq.errors import EnvironmentFault, TargetError
from autoq.process.blame import lacks_memory, machines_fault
from autoq.process.child import HEADER, Entry
from autoq.process.lean_imports import leave_out_symbols, leave_out_unused

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve until standard input ends; the first message says what to run."""
    leave_out_unused()
    leave_out_symbols()
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    # What candidates and compilers print must not mix with the replies.
    os.dup2(2, 1)
    parent, entry = pickle.loads(_read(requests))
    _die_with(parent)
    warnings = _Warnings()
    logging.getLogger("autoq").addHandler(warnings)
    try:
        handler = _handler(entry)
    except Exception as error:  # reported to the parent, which gives up on this child
        _reply(replies, _kind(error), _describe(error), warnings.taken())
        return
    _reply(replies, "ok", os.getpid(), warnings.taken())
    while True:
        try:
            data = _read(requests)
        except EOFError:
            return
        try:
            kind, reply = "ok", handler(pickle.loads(data))
        except Exception as error:  # one request's failure; the parent decides what it means
            kind, reply = _kind(error), _describe(error)
        _reply(replies, kind, reply, warnings.taken())


class _Warnings(logging.Handler):
    """Keeps what the child warns of for its next reply."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._texts.append(record.getMessage())

    def taken(self) -> list[str]:
        texts, self._texts = self._texts, []
        return texts


def _kind(error: Exception) -> str:
    """Whose fault an exception is: "memory" is wanting, the machine is at "fault", or "error"."""
    if lacks_memory(error):
        return "memory"
    if isinstance(error, OSError | EnvironmentFault | TargetError):
        return "fault"
    return "memory" if machines_fault(_describe(error)) else "error"


def _handler(entry: Entry) -> Callable[[Any], Any]:
    """What answers requests; what its modules and TVM's are made of is no garbage, ever.

    A seventh of the time that a worker takes to start went into looking for some.
    """
    gc.disable()
    try:
        return getattr(importlib.import_module(entry.module), entry.function)(entry.argument)
    finally:
        gc.freeze()
        gc.enable()


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, even by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent process is gone")


def _describe(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no message"
    # Their messages are whole sentences.
    named = not isinstance(error, EnvironmentFault | TargetError)
    return f"{type(error).__name__}: {text}"[:500] if named else text[:500]


def _read(stream: BinaryIO) -> bytes:
    (size,) = HEADER.unpack(_exactly(stream, HEADER.size))
    return _exactly(stream, size)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _reply(stream: BinaryIO, kind: str, reply: object, warnings: list[str]) -> None:
    data = pickle.dumps((kind, reply, warnings))
    stream.write(HEADER.pack(len(data)) + data)
    stream.flush()
