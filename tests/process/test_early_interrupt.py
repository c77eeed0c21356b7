"""Ctrl-C within and behind what `ending_on_interrupt` surrounds."""

import signal
import subprocess
import sys

import pytest

# A suite that runs in the background of a shell inherits that Ctrl-C is ignored.
CODE = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from autoq.process.early_interrupt import ending_on_interrupt
{before}
with ending_on_interrupt():
    {within}
{behind}
"""
KILL = "os.kill(os.getpid(), signal.SIGINT)"


def ended(before: str = "", within: str = "pass", behind: str = "") -> tuple[int, str]:
    code = CODE.format(before=before, within=within, behind=behind)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    return done.returncode, done.stderr.strip()


def test_an_interrupt_within_is_one_line():
    assert ended(within=KILL) == (130, "autoq: interrupted")


def test_an_interrupt_behind_it_is_pythons():
    code, text = ended(behind=KILL)
    assert code == -signal.SIGINT and text.endswith("KeyboardInterrupt")


@pytest.mark.parametrize("place", ["within", "behind"])
def test_an_interrupt_that_is_ignored_stays_so(place):
    assert ended("signal.signal(signal.SIGINT, signal.SIG_IGN)", **{place: KILL}) == (0, "")
