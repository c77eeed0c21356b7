"""Attention that tests of several templates take: named workloads of networks, and random ones."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
from ptx.kernels import assert_right_emulated

from autoq.templates.base import Template
from autoq.templates.operators.attention import Attention
from autoq.templates.target import parse_target

_FILE = Path(__file__).parents[3] / "scripts" / "cases" / "attention_cases.py"
NAMED: dict[str, Attention] = runpy.run_path(str(_FILE))["NAMED"]
BYTES = {f"{name}_dtype": "uint8" for name in ("q", "k", "v", "out")}


def random_attention(
    rng: np.random.Generator, float_unit: int = 2, byte_unit: int = 4, longest: int = 140
) -> Attention:
    """Attention of random lengths, orders, types and masks.

    Its depth is a multiple of one of the units, at most some 130 values.
    """
    queries, keys = (int(rng.integers(1, longest)) for _ in range(2))
    batch, heads = (int(rng.integers(1, 3)) for _ in range(2))
    orders = {f"{name}_order": str(rng.choice(["bhld", "blhd"])) for name in "qkvy"}
    masks = {"mask_axes": str(rng.choice(["", "", "n", "bn", "hmn", "bhmn"]))}
    if masks["mask_axes"]:
        masks["constant_mask"] = bool(rng.random() < 0.3)
    if keys >= queries:
        masks["causal"] = bool(rng.random() < 0.3)
    if rng.random() < 0.5:
        kind = str(rng.choice(["float16", "bfloat16"]))
        types = dict.fromkeys(("q_dtype", "k_dtype", "v_dtype"), kind)
        types["out_dtype"] = str(rng.choice([kind, "float32"]))
        depth = float_unit * int(rng.integers(1, 132 // float_unit))
        return Attention(batch, heads, queries, keys, depth, **types, **orders, **masks)
    types = {f"{name}_dtype": str(rng.choice(["int8", "uint8"])) for name in ("q", "k", "v")}
    types["out_dtype"] = str(rng.choice(["int8", "uint8", "float32"]))
    masks["quantised_scores"] = bool(rng.random() < 0.7)
    masks["rescaled_scores"] = bool(masks["quantised_scores"] and rng.random() < 0.4)
    masks["quantised_masked"] = bool(masks["mask_axes"] and rng.random() < 0.5)
    depth = byte_unit * int(rng.integers(1, 136 // byte_unit + 1))
    return Attention(batch, heads, queries, keys, depth, **types, **orders, **masks)


def assert_sample_right(
    template: Template, workload: Attention, rng: np.random.Generator, turn: int
) -> None:
    """A configuration of the workload is right, on architectures by turns."""
    target = parse_target(f"cuda:{('sm_80', 'sm_89', 'sm_90a')[turn % 3]}")
    (config,) = template.space(workload, target).sample(rng, 1)
    assert_right_emulated(template, workload, config, target)
