"""The child's end of `Child`: reads requests from standard input and answers them."""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from autoq.measure.child import HEADER, Entry

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve until standard input ends; the first message says what to run."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    # What candidates and compilers print must not mix with the replies.
    os.dup2(2, 1)
    parent, entry = pickle.loads(_read(requests))
    _die_with(parent)
    try:
        handler = _handler(entry)
    except Exception as error:  # reported to the parent, which gives up on this child
        _reply(replies, "error", _describe(error))
        return
    _reply(replies, "ok", os.getpid())
    while True:
        try:
            data = _read(requests)
        except EOFError:
            return
        try:
            kind, reply = "ok", handler(pickle.loads(data))
        except Exception as error:  # one request's failure; the parent decides what it means
            kind, reply = "error", _describe(error)
        _reply(replies, kind, reply)


def _handler(entry: Entry) -> Callable[[Any], Any]:
    return getattr(importlib.import_module(entry.module), entry.function)(entry.argument)


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, even by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent process is gone")


def _describe(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text}"[:500]


def _read(stream: BinaryIO) -> bytes:
    (size,) = HEADER.unpack(_exactly(stream, HEADER.size))
    return _exactly(stream, size)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _reply(stream: BinaryIO, kind: str, reply: object) -> None:
    data = pickle.dumps((kind, reply))
    stream.write(HEADER.pack(len(data)) + data)
    stream.flush()
