"""The search floor stands alone."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import autoq.search, autoq.search.compare
above = {"tvm", "search", "autoq.templates", "autoq.measure", "autoq.records", "onnx"}
found = sorted(above & set(sys.modules))
sys.exit(", ".join(found) or 0)
"""


def test_search_imports_nothing_above_it():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
