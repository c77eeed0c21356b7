"""Threads that each own one child process and take work from one queue."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from autoq.process.child import Child

T = TypeVar("T")

Work = Callable[[Child], T]


class ChildPool:
    """Runs functions of a child, each in one of `size` threads with its child.

    Args:
        make_child: gives each thread its child.
        size: threads, and children at most.
    """

    def __init__(self, make_child: Callable[[], Child], size: int) -> None:
        self._queue: queue.SimpleQueue[tuple[Future[Any], Work[Any]] | None] = queue.SimpleQueue()
        self._children = [make_child() for _ in range(size)]
        self._closed = threading.Event()
        # Daemons: an interrupted tuner must not wait for a candidate that hangs.
        self._threads = [
            threading.Thread(target=self._run, args=(child,), daemon=True)
            for child in self._children
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Work that no thread has taken up yet."""
        return self._queue.qsize()

    def submit(self, work: Work[T]) -> Future[T]:
        """Queue work; the future carries its result or its exception."""
        future: Future[T] = Future()
        self._queue.put((future, work))
        return future

    def warm(self) -> None:
        """Start the children now; one that cannot start says so with its first work."""
        for _ in self._threads:
            self.submit(lambda child: child.start())

    def cancel(self) -> None:
        """Drop work that no thread has taken up; its futures are cancelled."""
        with contextlib.suppress(queue.Empty):
            while (item := self._queue.get_nowait()) is not None:
                item[0].cancel()

    def close(self) -> None:
        """Drop queued work, end all children and wait until they are gone."""
        self._closed.set()
        for _ in self._threads:
            self._queue.put(None)
        for child in self._children:
            child.interrupt()
        for thread in self._threads:
            thread.join()

    def _run(self, child: Child) -> None:
        while (item := self._queue.get()) is not None:
            future, work = item
            if self._closed.is_set() or not future.set_running_or_notify_cancel():
                future.cancel()
                continue
            try:
                result = work(child)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        child.kill()
