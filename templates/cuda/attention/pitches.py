"""How far apart rows of attention's arrays lie in memory."""

from __future__ import annotations

from autoq.templates.operators.attention import Attention


def row_pitches(work: Attention) -> dict[str, int]:
    """How far rows of q, k, v and y lie apart in memory, by name, in values."""
    return {
        name: work.depth * (work.heads if getattr(work, f"{name}_order") == "blhd" else 1)
        for name in "qkvy"
    }


def mask_pitches(work: Attention) -> tuple[int, int, int]:
    """How far batches, heads and queries of the mask lie apart, in values; 0 for one of all."""
    _, heads, rows, keys = work.mask_shape
    axes = work.mask_axes
    return (
        heads * rows * keys if "b" in axes else 0,
        rows * keys if "h" in axes else 0,
        keys if "m" in axes else 0,
    )
