"""The knob of attention of products."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProjectedAttentionConfig:
    """stages: shared-memory buffers of x and of weights, 128 columns each."""

    stages: int
