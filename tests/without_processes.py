"""Tuning whose builders and workers are threads of the test process.

Each child process imports TVM anew, which takes longer than all the trials of a small run. What
processes add, their deaths, limits and environments, is tested in `process/`, `measure/`,
`test_tuner.py` and `cli/test_cli_process.py`.
"""

from __future__ import annotations

import importlib
import itertools
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from autoq.errors import EnvironmentFault
from autoq.process.child import ChildCrash, Entry

_PIDS = itertools.count(1)


class ChildHere:
    """What stands for a `Child`: requests and replies are pickled, a fault of the machine is
    told as one, and other errors escape.

    Attributes:
        pid: another number whenever it starts, None while it is not running.
    """

    def __init__(self, entry: Entry, environment: Mapping[str, str] | None = None) -> None:
        self._entry = entry
        self._handler: Callable[[Any], Any] | None = None
        self.pid: int | None = None

    def start(self) -> None:
        if self._handler is None:
            entry = pickle.loads(pickle.dumps(self._entry))
            serve = getattr(importlib.import_module(entry.module), entry.function)
            self._handler = serve(entry.argument)
            self.pid = next(_PIDS)

    def call(self, request: Any, timeout: float, start: bool = True) -> Any:
        if self._handler is None and not start:
            raise ChildCrash("was not running", outside=True)
        self.start()
        assert self._handler is not None
        try:
            reply = self._handler(pickle.loads(pickle.dumps(request)))
        except OSError as error:
            raise EnvironmentFault(str(error)) from error
        return pickle.loads(pickle.dumps(reply))

    def kill(self) -> None:
        self._handler = self.pid = None

    def interrupt(self) -> None:
        """Nothing: the thread goes on to the end of its request."""


@contextmanager
def without_processes() -> Iterator[None]:
    """Have tuning start no processes."""
    with pytest.MonkeyPatch.context() as patch:
        modules = "measure.builder", "measure.runner", "recording.planner", "replaying.comparison"
        for module in modules:
            patch.setattr(f"autoq.{module}.Child", ChildHere)
        yield
