"""The staged kernels of attention under sparse masks: their outputs, and masks in strides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.sparse_attention.sparse_attention_staged import TEMPLATE, StagedConfig
from autoq.templates.operators.sparse_attention import SparseAttention
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

WORKLOAD = SparseAttention(1, 2, 61, 300, 64, Structure(224, 28, 80))
TARGET = parse_target("cuda:sm_80")


@pytest.mark.parametrize("structure", [WORKLOAD.structure, Structure(2400, 300, 300)])
def test_strides_hold_the_mask(structure: Structure) -> None:
    workload = replace(WORKLOAD, structure=structure)
    _, constants = workload.random_case(np.random.default_rng(1))
    packed = TEMPLATE.constants(workload, StagedConfig(4), constants)
    groups, starts, columns, kept, _ = packed
    found = np.zeros((workload.groups * 8, 300), bool)
    for step in range(starts[-1]):
        assert starts[groups[step]] <= step < starts[groups[step] + 1]
        for query in range(8):
            seen = kept[step, query] >> np.arange(32) & 1 == 1
            found[groups[step] * 8 + query, columns[step, seen]] = True
    np.testing.assert_array_equal(found[:61], workload.mask(constants).to_dense() != 0)
    assert (groups[starts[-1] :] == -1).all() and not kept[starts[-1] :].any()


@needs_nvcc
@pytest.mark.parametrize(
    "workload",
    [
        replace(WORKLOAD, softmax_bits=16),
        replace(WORKLOAD, depth=40, dtype="bfloat16", qkv_bits=4),
        replace(WORKLOAD, batch=2, depth=128, softmax_bits=16, order="blhd"),
        replace(WORKLOAD, structure=Structure(0, 0, 0)),
        replace(WORKLOAD, structure=Structure(2400, 300, 300), softmax_bits=16),
    ],
    ids=["16 bits", "4 bits", "deep", "empty", "full"],
)
def test_outputs_are_right(workload: SparseAttention) -> None:
    for config in (StagedConfig(2), StagedConfig(8)):
        assert_right_emulated(TEMPLATE, workload, config, TARGET, ("late",))
