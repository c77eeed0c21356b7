"""Workloads of a case file: a Python module with CASES, workloads or tuples that end in one."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from autoq.templates.workload import Workload
from autoq.templates.workload_key import key


def load_cases(path: Path) -> list[Workload]:
    """The distinct workloads of a module's CASES."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    cases = [case[-1] if isinstance(case, tuple) else case for case in module.CASES]
    return list({key(workload): workload for workload in cases}.values())
