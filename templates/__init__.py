"""Kernel templates: workloads and targets to TVM PrimFuncs.

`TEMPLATES` loads on first use: naming a workload or target needs no TVM.
"""

from __future__ import annotations

from typing import Any

__all__ = ["TEMPLATES"]


def __getattr__(name: str) -> Any:
    if name != "TEMPLATES":
        raise AttributeError(f"module 'autoq.templates' has no attribute {name!r}")
    from autoq.templates.registry import TEMPLATES

    return TEMPLATES
