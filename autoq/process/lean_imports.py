"""Keeps processes of autoq's own from importing large packages that it never uses.

TVM's foreign-function interface imports torch, and XGBoost imports scikit-learn and pandas,
wherever they are installed. On the host of an H200 with all three, that is 4.6 of the 8.1 seconds
in which `autoq.tuner` is imported, and every worker of a tuning run imports most of what it does.

TVM also raises and catches a hundred errors while it is imported. The first one of a process reads
what the symbols and lines of every library are that is loaded: with an interpreter that has
debugging information, as pyenv builds it, a third of the second that the import takes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

UNUSED = ("torch", "sklearn", "pandas")
"""Packages that others import if they can, and do without if they cannot."""


def leave_out_unused() -> None:
    """Have `import` say of each of `UNUSED` that it is not installed, unless it is imported.

    For a process that runs nothing but autoq: in a user's process they are the user's to import.
    """
    for name in UNUSED:
        sys.modules.setdefault(name, None)  # what the import system takes for "not there"


def allow_unused() -> None:
    """Have packages that `leave_out_unused` left out imported again where something asks for them.

    For a process that runs another library beside autoq, once TVM has done without.
    """
    for name in UNUSED:
        if name in sys.modules and sys.modules[name] is None:
            del sys.modules[name]


def leave_out_symbols() -> None:
    """Have TVM's errors name no C++ functions but the one that raises, once TVM is imported.

    For a process that runs nothing but autoq, before it has threads.
    """
    if sys.platform == "linux" and "tvm" not in sys.modules:
        sys.meta_path.insert(0, _BeforeTvm())


class _BeforeTvm(MetaPathFinder):
    """Finds nothing; it only sees that TVM is about to be imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "tvm":
            sys.meta_path.remove(self)
            if importlib.util.find_spec("tvm_ffi"):
                _first_error()
        return None


def _first_error() -> None:
    """An error of TVM's while no file can be opened: libbacktrace then never tries again."""
    import resource

    import tvm_ffi

    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with contextlib.suppress(AttributeError, RuntimeError, TypeError, ValueError):
            tvm_ffi.get_global_func_metadata("autoq: no such function")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
