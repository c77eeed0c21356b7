"""Attention of bytes on wgmma, rounded as quantised models are.

Each score is rounded as on mma.sync, which takes most of the time of either: untuned, mma.sync is
preferred, since more of its warps fit a multiprocessor.
"""

from __future__ import annotations

from autoq.templates.base import Template
from autoq.templates.cuda.attention.attention_mma_sync import pack, packed
from autoq.templates.cuda.attention.wgmma.attention_wgmma import build, takes
from autoq.templates.cuda.attention.wgmma.cost import estimate
from autoq.templates.cuda.attention.wgmma.space import default, space
from autoq.templates.operators.attention import Attention
from autoq.templates.target import Target


def matches(workload: object, target: Target) -> bool:
    """Bytes that `takes` allows."""
    return isinstance(workload, Attention) and not workload.floating and takes(workload, target)


TEMPLATE = Template(
    "attention_wgmma_bytes", 2, matches, space, default, build, pack, packed, preference=10,
    estimate=estimate, module=__name__,
)  # fmt: skip
