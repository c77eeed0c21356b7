"""Futures that end as others do."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any


def transfer(done: Future[Any], future: Future[Any]) -> None:
    """Let a future end as another has, unless it was cancelled meanwhile."""
    if done.cancelled():
        future.cancel()
    elif not future.set_running_or_notify_cancel():
        return
    elif done.exception() is not None:
        future.set_exception(done.exception())
    else:
        future.set_result(done.result())
