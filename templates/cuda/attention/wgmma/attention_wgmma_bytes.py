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


_LEAST_KEYS = 128
"""With fewer the kernel on mma.sync, of preference 20, is taken untuned."""
_BEHIND, _PREFERRED = 10, 90


def preference_for(workload: Attention, target: Target) -> int:
    """In front of `attention_mma_sync` for 128 keys and more, behind it for fewer.

    Of 8 images and 12 heads an H200 takes 4.4 us for 4.8 with 128 keys, 8.7 for 9.7 with 208, 9.8
    for 11.1 with 256 and 16.1 for 30.4 with 384, by the untuned choice of each.
    """
    return _PREFERRED if workload.keys >= _LEAST_KEYS else _BEHIND


TEMPLATE = Template(
    "attention_wgmma_bytes", 2, matches, space, default, build, pack, packed, preference=_BEHIND,
    estimate=estimate, module=__name__, preference_for=preference_for,
)  # fmt: skip
