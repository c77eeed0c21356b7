"""Products whose groups have warps of their own, and epilogues of one scale, on the emulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.errors import InputError
from autoq.templates.cuda.sparse.spmm_split import TEMPLATE, SplitConfig
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

WORKLOAD = Spmm(61, 80, 300, 4, Structure(1792, 112, 256))
UNIFORM = replace(WORKLOAD, epilogue=Epilogue(uniform=True))
TARGET = parse_target("cuda:sm_90a")


def test_warps_begin_where_their_numbers_say() -> None:
    config = SplitConfig(64, 4)
    _, constants = WORKLOAD.random_case(np.random.default_rng(3))
    values, places, groups, *_ = TEMPLATE.constants(WORKLOAD, config, constants)
    dense = WORKLOAD.matrix(constants).to_dense()
    found = np.zeros((dense.shape[0] + 8, dense.shape[1]), np.int64)
    # A lane's bytes of a half: of rows 2t, 2t + 1 of the first eight places and of the second.
    held = values.view(np.int8).reshape(len(values), 8, 4, 2, 2, 2)
    for group, (rest, steps, row, _) in enumerate(groups):
        own = [group * 4 + i for i in range(min(steps, 4))]
        for step in (*own, *range(rest, rest + max(0, steps - 4))):
            found[row : row + 8] += _of_step(held[step], places[step] // WORKLOAD.n, dense.shape[1])
    np.testing.assert_array_equal(found[: dense.shape[0]], dense)
    # Where a step or a warp has no more vectors, it gathers rows of b that the group has named.
    for group, (_, _, row, _) in enumerate(groups):
        named = np.flatnonzero(dense[row : row + 8].any(axis=0)) * WORKLOAD.n
        own = places[group * 4 : group * 4 + 4]
        assert not len(named) or np.isin(own, named).all()


def _of_step(held: np.ndarray, places: np.ndarray, columns: int) -> np.ndarray:
    """The eight rows of one step, dense."""
    rows = np.zeros((columns, 8), np.int64)
    np.add.at(rows, places, held.transpose(2, 3, 1, 4, 0).reshape(32, 8))  # half, eight, 2t + odd
    return rows.T


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (replace(WORKLOAD, n=144), SplitConfig(128, 1, 8)),
        (UNIFORM, SplitConfig(32, 4, 2, by_tiles=True)),
        (
            replace(WORKLOAD, weight_dtype="int16", in_dtype="int4", epilogue=Epilogue("float16")),
            SplitConfig(64, 2),
        ),
    ],
    ids=["one warp", "one scale", "digits"],
)
def test_outputs_are_right(workload: Spmm, config: SplitConfig) -> None:
    assert config in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


def test_a_uniform_product_has_neither_bias_nor_zero_point() -> None:
    _, constants = UNIFORM.random_case(np.random.default_rng(3))
    UNIFORM.check_constants(constants)
    with pytest.raises(InputError, match="uniform, but scales differ"):
        UNIFORM.check_constants({**constants, "b_zero_point": 3})
