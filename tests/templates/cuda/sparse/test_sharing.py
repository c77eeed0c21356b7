"""Rows of b that blocks of a cluster share: how they are dealt, and outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.sparse.spmm_wgmma import TEMPLATE, LongConfig
from autoq.templates.cuda.sparse.wgmma_sharing import deal
from autoq.templates.operators.spmm import Spmm
from autoq.templates.structure import Structure
from autoq.templates.target import parse_target

WORKLOAD = Spmm(128, 144, 150, 32, Structure(320, 80, 96))
TARGET = parse_target("cuda:sm_90a")


@needs_nvcc
def test_rows_of_b_that_four_vector_rows_have_are_copied_once() -> None:
    """Three blocks of a cluster have fewer rows, and slots in which they have none."""
    config = LongConfig(1, 1, 32, 3, 4, bulk=4, shared=True)
    assert config in TEMPLATE.space(WORKLOAD, TARGET)
    assert config not in TEMPLATE.space(replace(WORKLOAD, m=150), TARGET)
    assert_right_emulated(TEMPLATE, WORKLOAD, config, TARGET)


@pytest.mark.parametrize(("blocks", "rest"), [(2, 0.75), (4, 0.48)])
def test_rows_are_dealt_so_that_few_are_copied_twice(blocks: int, rest: float) -> None:
    """Half of all rows at random: 3/4 of all copies remain of two, 15/32 of four vector rows."""
    rng = np.random.default_rng(1)
    columns = [np.sort(rng.choice(1024, 512 - 5 * i, replace=False)) for i in range(blocks)]
    slots, copied_for, common = deal(columns)
    came = np.zeros((blocks, 512), np.int64)
    for block, own in enumerate(columns):
        assert len(np.unique(slots[block])) == len(own) and slots[block].max() < 512
        for column, slot, given in zip(own, slots[block], copied_for[block], strict=True):
            for other in range(blocks):
                if given >> other & 1:
                    assert slots[other][np.searchsorted(columns[other], column)] == slot
                    came[other, slot] += 1
        assert given == 0 or slot < common or given == 1 << block
    assert [row.sum() for row in came] == [len(own) for own in columns] and came.max() == 1
    copies = sum(np.count_nonzero(given) for given in copied_for)
    assert copies < (rest + 0.03) * sum(map(len, columns))
