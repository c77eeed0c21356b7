"""autoq: finds and compiles low-precision tensor-core kernels for quantised ONNX models.

The attributes below load on first use, so that importing a lower floor stays light.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_LAZY = {
    "compile": "autoq.compilation.compiler",
    "operator": "autoq.single_operator",
    "prune": "autoq.pruning.model",
    "residual_matmul": "autoq.products.residual_matmul",
    "sddmm": "autoq.products.sddmm",
    "sddmm_operator": "autoq.products.sddmm",
    "sparse_attention": "autoq.products.sparse_attention",
    "sparse_attention_operator": "autoq.products.sparse_attention",
    "spmm": "autoq.products.spmm",
    "spmm_operator": "autoq.products.spmm",
    "tune": "autoq.tuner",
    "Session": "autoq.session",
}

__all__ = [
    "Session",
    "__version__",
    "compile",
    "operator",
    "prune",
    "residual_matmul",
    "sddmm",
    "sddmm_operator",
    "sparse_attention",
    "sparse_attention_operator",
    "spmm",
    "spmm_operator",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'autoq' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
