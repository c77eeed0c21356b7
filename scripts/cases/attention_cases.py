"""Attention of networks at batch 8, in both types, as `check_kernels.py` takes it."""

from __future__ import annotations

from typing import Any

from autoq.templates.operators.attention import Attention

_BYTES = {"q_dtype": "int8", "k_dtype": "int8", "v_dtype": "int8", "out_dtype": "int8"}
_QUANTISED: dict[str, Any] = {**_BYTES, "quantised_scores": True}
_SIDE_BY_SIDE = {f"{name}_order": "blhd" for name in "qkvy"}

NAMED = {
    "vit f16": Attention(8, 12, 197, 197, 64, **_SIDE_BY_SIDE),
    "vit s8": Attention(8, 12, 197, 197, 64, **_SIDE_BY_SIDE, **_QUANTISED),
    "bert 128 f16": Attention(8, 12, 128, 128, 64, **_SIDE_BY_SIDE),
    "bert 128 s8": Attention(8, 12, 128, 128, 64, **_SIDE_BY_SIDE, **_QUANTISED),
    "bert 128 masked f16": Attention(8, 12, 128, 128, 64, **_SIDE_BY_SIDE, mask_axes="bn"),
    "bert 128 masked s8": Attention(8, 12, 128, 128, 64, **_SIDE_BY_SIDE, **_QUANTISED,
                                    mask_axes="bn", quantised_masked=True),
    "bert 384 f16": Attention(8, 12, 384, 384, 64, **_SIDE_BY_SIDE),
    "bert 384 s8": Attention(8, 12, 384, 384, 64, **_SIDE_BY_SIDE, **_QUANTISED),
    "swin f16": Attention(512, 3, 49, 49, 32, mask_axes="hmn"),
    "swin s8": Attention(512, 3, 49, 49, 32, mask_axes="hmn", **_QUANTISED),
    "long 4096 f16": Attention(2, 8, 4096, 4096, 64),
    "long 4096 causal f16": Attention(2, 8, 4096, 4096, 64, causal=True),
    "long 4096 s8": Attention(2, 8, 4096, 4096, 64, **_BYTES),
    "long 8192 f16": Attention(2, 8, 8192, 8192, 64),
    "long 8192 s8": Attention(2, 8, 8192, 8192, 64, **_BYTES),
    "long 4096x128 f16": Attention(2, 8, 4096, 4096, 128),
}  # fmt: skip
"""Workloads by the names of `bench_attention.py`."""

CASES = [work for name, work in NAMED.items() if "long" not in name]
"""Those whose reference takes numpy a second or less."""
