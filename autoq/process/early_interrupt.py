"""Ctrl-C while the command line's modules are imported ends in a line, as it does behind that.

An interrupt inside a C extension's import comes out as an ImportError of that extension.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130


@contextmanager
def ending_on_interrupt() -> Iterator[None]:
    """SIGINT ends the process within; one that is ignored or handled otherwise stays so."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: object) -> None:
    os.write(2, b"autoq: interrupted\n")
    os._exit(INTERRUPTED)
