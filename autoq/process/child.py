"""A long-lived child process that answers requests, and survives nothing: it can be killed.

Candidates are compiled and run in such children, so that one that crashes or hangs costs its
child alone. Requests and replies are pickles with an eight-byte length before them. A reply brings
along what the child warned of, which is said here.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

from autoq.errors import AutoqError, EnvironmentFault
from autoq.process.blame import from_outside, machines_fault

HEADER = struct.Struct("<Q")

# Without the current folder on the path: a checkout's autoq/ there lacks the mapped folders.
_PROGRAM = (
    "import sys; sys.path[:] = filter(None, sys.path); from autoq.process.serve import main; main()"
)

# How long the kernel may take to reap a killed process before something is badly wrong.
_DEATH_SECONDS = 120.0


class ChildCrash(AutoqError):
    """The child died, or could not start, while it had a request; carries its last words.

    outside: it was ended by another process or for want of memory or disk, not by its request.
    """

    def __init__(self, message: str, outside: bool) -> None:
        super().__init__(message)
        self.outside = outside


class ChildTimeout(AutoqError):
    """The child did not answer in time and was killed; it is confirmed dead."""


class ChildError(AutoqError):
    """The request raised in the child, which lives on; carries the exception's text.

    outside: it was for want of memory. A machine that fails otherwise raises EnvironmentFault.
    """

    def __init__(self, message: str, outside: bool = False) -> None:
        super().__init__(message)
        self.outside = outside


@dataclass(frozen=True)
class Entry:
    """What a child runs: `function` of `module`, called once with `argument`, gives a handler.

    The handler is called with each request; what it returns is the reply.
    """

    module: str
    function: str
    argument: Any = None


class Child:
    """The parent's end of one child; it starts with the first request and again after a death.

    A child must be used by one thread, which outlives it: the kernel ends the child with the
    thread that started it.

    Args:
        entry: what the child runs.
        environment: added to the child's environment variables.
        start_timeout: seconds that the start (imports, CUDA context) may take.
    """

    def __init__(
        self,
        entry: Entry,
        environment: Mapping[str, str] | None = None,
        start_timeout: float = 120.0,
    ) -> None:
        self._entry = entry
        self._environment = dict(environment or {})
        self._start_timeout = start_timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._interrupted = False

    @property
    def alive(self) -> bool:
        """Whether a process is there that can take a request."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The running process, if any."""
        return self._process.pid if self._process is not None else None

    def call(self, request: Any, timeout: float, start: bool = True) -> Any:
        """The reply to a request; start: where there is no child, start one.


        Raises ChildTimeout after `timeout` seconds, ChildCrash when the child dies, and
        ChildError when the handler raises. After the first two the child is dead. Raises
        EnvironmentFault when the machine has no room for a child, or fails it.
        """
        if not self.alive and not start:
            raise self._crash()
        self.start()
        return self._exchange(request, timeout)

    def start(self) -> None:
        """Have a process ready for the first request; raises as `call` does."""
        if not self.alive:
            self._start()

    def kill(self) -> None:
        """End the child and everything it started; returns when it is gone."""
        process, self._process = self._process, None
        if process is None:
            return
        # The child leads a session of its own, which holds compilers that it has started.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        process.wait(_DEATH_SECONDS)
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def interrupt(self) -> None:
        """End the child for good, from any thread; its owner gets ChildCrash from now on."""
        self._interrupted = True
        process = self._process
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _start(self) -> None:
        self.kill()
        try:
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by kill
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                bufsize=0,
                start_new_session=True,
                env={**os.environ, **self._environment, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        except OSError as error:
            raise EnvironmentFault(
                f"a worker process cannot be started ({error.strerror or error})"
            ) from error
        if self._interrupted:
            self.kill()
            raise ChildCrash("was interrupted", outside=True)
        try:
            self._exchange((os.getpid(), self._entry), self._start_timeout)
        except EnvironmentFault:
            self.kill()
            raise
        except ChildError as error:
            self.kill()
            raise ChildCrash(f"could not start: {error}", outside=True) from error

    def _exchange(self, request: Any, timeout: float) -> Any:
        deadline = time.monotonic() + timeout
        try:
            self._write(pickle.dumps(request), deadline)
            (size,) = HEADER.unpack(self._read(HEADER.size, deadline))
            kind, reply, warnings = pickle.loads(self._read(size, deadline))
        except TimeoutError:
            self.kill()
            raise ChildTimeout(f"no answer within {timeout:g} s") from None
        except (BrokenPipeError, ConnectionResetError, EOFError):
            raise self._crash() from None
        for text in warnings:
            _say_once(text)
        if kind == "fault":
            raise EnvironmentFault(reply)
        if kind != "ok":
            raise ChildError(reply, outside=kind == "memory")
        return reply

    def _write(self, data: bytes, deadline: float) -> None:
        stream = self._process.stdin if self._process else None
        if stream is None:
            raise EOFError
        view = memoryview(HEADER.pack(len(data)) + data)
        descriptor = stream.fileno()
        while view:
            _wait(descriptor, deadline, write=True)
            view = view[os.write(descriptor, view[: 1 << 16]) :]

    def _read(self, size: int, deadline: float) -> bytes:
        stream = self._process.stdout if self._process else None
        if stream is None:
            raise EOFError
        parts = bytearray()
        while len(parts) < size:
            _wait(stream.fileno(), deadline, write=False)
            part = os.read(stream.fileno(), min(size - len(parts), 1 << 20))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)

    def _crash(self) -> ChildCrash:
        """How the child ended, and the last line it wrote to its standard error."""
        process, stderr = self._process, self._stderr
        if process is None or stderr is None:
            return ChildCrash("was not running", outside=True)
        outside = False
        try:
            status = process.wait(5.0)
            outside = status < 0 and from_outside(-status)
            how = f"died of {_signal_name(-status)}" if status < 0 else f"exited {status}"
        except subprocess.TimeoutExpired:
            how = "closed its pipe"
        size = stderr.seek(0, os.SEEK_END)
        stderr.seek(max(0, size - 4096))
        lines = stderr.read().decode(errors="replace").strip().splitlines()
        self.kill()
        # LLVM and the C++ library say what they lacked, and abort.
        outside = outside or any(machines_fault(line) for line in lines[-3:])
        return ChildCrash(f"{how}: {lines[-1][:300]}" if lines else how, outside)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


@functools.cache
def _say_once(text: str) -> None:
    """A warning of any number of children."""
    logging.getLogger(__name__).warning(text)


def _wait(descriptor: int, deadline: float, write: bool) -> None:
    """Until a pipe is ready; raises TimeoutError at the deadline."""
    left = max(0.0, deadline - time.monotonic())
    reads, writes = ([], [descriptor]) if write else ([descriptor], [])
    if not any(select.select(reads, writes, [], left)):
        raise TimeoutError
