"""Import of ONNX models."""

from __future__ import annotations

from autoq.frontend.load import from_model, load

__all__ = ["from_model", "load"]
