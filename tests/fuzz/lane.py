"""A lane of cases: a child process that runs them, watched and started again when it dies."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fuzz.findings import Finding

LIMIT_SECONDS = 60.0
START_SECONDS = 120.0
"""How long a child may take to import what it tests, on a busy machine."""


@dataclass(frozen=True)
class Shift:
    """Cases `first`, `first + stride`, ... below `stop` of a subject until a monotonic deadline."""

    subject: str
    seed: int
    first: int
    stride: int
    stop: int
    deadline: float


class Lane:
    """Runs a shift. `on_case` gets a finding or None for every case, from the calling thread."""

    def __init__(
        self, shift: Shift, folder: Path, on_case: Callable[[Finding | None], None]
    ) -> None:
        self._shift, self._on_case = shift, on_case
        self._output = folder / f"{shift.subject}-{shift.first}.txt"
        self._stopped = threading.Event()
        self._next = shift.first

    def stop(self) -> None:
        """End soon, and kill the case that runs."""
        self._stopped.set()

    def run(self) -> None:
        """Run until the deadline, but one case at least, with as many children as it takes."""
        shift = self._shift
        while not self._stopped.is_set() and self._next < shift.stop:
            before = self._next
            if before > shift.first and time.monotonic() > shift.deadline:
                return
            finding = self._watch_child()
            if finding is None:
                return
            self._on_case(finding)
            if self._next == before:  # died outside of any case: the next child would as well
                return

    def _watch_child(self) -> Finding | None:
        """Start a child at the next case; what ended it, None when it came to its end."""
        reader, writer = os.pipe()
        options = {**vars(self._shift), "first": self._next, "pipe": writer}
        with open(self._output, "ab") as output, os.fdopen(reader) as report:
            child = subprocess.Popen(
                [sys.executable, "-m", "fuzz.child", json.dumps(options)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                pass_fds=[writer], start_new_session=True,
            )  # fmt: skip
            os.close(writer)
            try:
                return self._follow(child, _Lines(report.fileno()))
            finally:
                _kill_group(child, signal.SIGKILL)
                child.wait()

    def _follow(self, child: subprocess.Popen[bytes], lines: _Lines) -> Finding | None:
        running: int | None = None
        limit = START_SECONDS
        while not self._stopped.is_set():
            line = lines.next(limit, self._stopped)
            if line is None and lines.ended:
                return self._death(child, running)
            if line is None:
                return self._hang(child, running, limit)
            word, case, value = json.loads(line)
            if word == "start":
                running, limit = case, value or LIMIT_SECONDS
            else:
                running, limit, self._next = None, LIMIT_SECONDS, case + self._shift.stride
                self._on_case(Finding(**value) if value else None)
        return None

    def _death(self, child: subprocess.Popen[bytes], running: int | None) -> Finding | None:
        code = child.wait()
        if running is None and code == 0:
            return None
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return self._end(running, "died", f"{how}; {self._last_words()}")

    def _hang(
        self, child: subprocess.Popen[bytes], running: int | None, limit: float
    ) -> Finding | None:
        if self._stopped.is_set():
            return None
        _kill_group(child, signal.SIGABRT)  # faulthandler writes down where it hangs
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            _kill_group(child, signal.SIGKILL)
        return self._end(running, "hung", f"longer than {limit:g} s; {self._last_words()}")

    def _end(self, running: int | None, kind: str, message: str) -> Finding:
        if running is None:
            return Finding(self._next, kind, f"between cases: {message}")
        self._next = running + self._shift.stride
        return Finding(running, kind, message)

    def _last_words(self) -> str:
        """Where the process was as faulthandler has it, else its last line."""
        text = self._output.read_text(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        frames = [line for line in lines if line.startswith("File ")]
        frames = [line for line in frames if "/fuzz/" not in line and "<frozen" not in line]
        return (frames[:1] or lines[-1:] or ["no output"])[0][:200]


class _Lines:
    """Lines of a pipe, each waited for at most so long."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._rest, self.ended = descriptor, b"", False

    def next(self, seconds: float, stopped: threading.Event) -> bytes | None:
        """The next line; None at the end, when time is up or once `stopped` is set."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or stopped.is_set():
                return None
            if select.select([self._descriptor], [], [], min(left, 0.5))[0]:
                data = os.read(self._descriptor, 1 << 16)
                if not data:
                    self.ended = True
                    return None
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def _kill_group(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, number)
