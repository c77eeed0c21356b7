"""Keeps processes of autoq's own from importing large packages that it never uses.

TVM's foreign-function interface imports torch, and XGBoost imports scikit-learn and pandas,
wherever they are installed. On the host of an H200 with all three, that is 4.6 of the 8.1 seconds
in which `autoq.tuner` is imported, and every worker of a tuning run imports most of what it does.
"""

from __future__ import annotations

import sys

UNUSED = ("torch", "sklearn", "pandas")
"""Packages that others import if they can, and do without if they cannot."""


def leave_out_unused() -> None:
    """Have `import` say of each of `UNUSED` that it is not installed, unless it is imported.

    For a process that runs nothing but autoq: in a user's process they are the user's to import.
    """
    for name in UNUSED:
        sys.modules.setdefault(name, None)  # what the import system takes for "not there"
