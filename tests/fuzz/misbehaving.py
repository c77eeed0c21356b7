"""A subject that does all that a fuzzer has to notice; its test knows what each case draws."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

LIMIT_SECONDS = 5
MEMORY_BYTES = 1 << 30


def _behave(folder: Path) -> None:
    assert not list(folder.iterdir())
    (folder / "left behind").write_text("x" * 100)


def _wrong(folder: Path) -> None:
    raise AssertionError("output differs by 3 steps")


def _escape(folder: Path) -> None:
    raise KeyError("integers")


def _exit(folder: Path) -> None:
    raise SystemExit(0)


def _die(folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _hang(folder: Path) -> None:
    time.sleep(3600)


def _hoard(folder: Path) -> None:
    np.ones(2 << 30, np.uint8)


KINDS = (_behave, _wrong, _escape, _exit, _die, _hang, _hoard)


def case(rng: np.random.Generator, folder: Path) -> None:
    """Do one of KINDS."""
    KINDS[rng.integers(len(KINDS))](folder)
