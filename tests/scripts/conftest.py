"""Lets the tests of scripts import them, and their child processes the fakes beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parents[1] / "scripts")]
