"""Lets the tests of scripts import them, and their child processes the fakes beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).parent
_SCRIPTS = _HERE.parents[1] / "scripts"
_PARTS = ("ablation", "bench", "bench/searching", "cases", "models", "storm")
_FOLDERS = (_SCRIPTS, *(_SCRIPTS / name for name in _PARTS))
sys.path[:0] = [str(folder) for folder in (_HERE, *_FOLDERS)]
