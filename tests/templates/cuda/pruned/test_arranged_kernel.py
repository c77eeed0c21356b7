"""Tile-wise products on sparse tensor cores: outputs on the emulator, and x in order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from picked_workloads import BYTES, CLASS, EMPTY, FLOATS, TARGET
from ptx.kernels import assert_right_emulated, run
from with_nvcc import needs_nvcc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.pruned.arranged.banks import in_banks
from autoq.templates.cuda.pruned.arranged.config import ArrangedTiling
from autoq.templates.cuda.pruned.arranged.gemm_tile_arranged import TEMPLATE
from autoq.templates.cuda.pruned.arranged.order_kernel import order_kernel, rows_of_block
from autoq.templates.cuda.pruned.arranged.pack import pack_all
from autoq.templates.cuda.pruned.product import pruned_product
from autoq.templates.cuda.pruned.two_four.config import TwoFourConfig
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.arrangement import NO_K
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure

SMALL = TwoFourConfig(64, 1, 1, 2, 4)
WHOLE = Sparsity("tw", 64, 320, Structure(2560, 448, 448))
"""Of weights without zeros."""
FEW = Sparsity("tw", 64, 512, Structure(2560, 320, 320))
"""Of tiles that do without some stages."""


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (BYTES, SMALL),
        (replace(BYTES, m=300), TwoFourConfig(128, 2, 1, 3, 4, 2, 128)),
        (replace(BYTES, in_dtype="uint8", weight_dtype="uint8"), TwoFourConfig(64, 2, 2, 2, 4)),
        (replace(BYTES, epilogue=Epilogue("int32")), TwoFourConfig(64, 3, 1, 2, 8)),
        (replace(BYTES, epilogue=Epilogue("float16", float_bias=True)), SMALL),
        (replace(BYTES, sparsity=EMPTY), TwoFourConfig(64, 1, 1, 3, 4, 2)),
        (replace(BYTES, sparsity=WHOLE), SMALL),
        (Gemm(70, 600, 1600, sparsity=FEW), TwoFourConfig(64, 1, 1, 3, 4)),
        (Gemm(70, 600, 1600, sparsity=FEW), TwoFourConfig(128, 2, 1, 2, 4, 2)),
        (FloatGemm(70, 600, 1600, weight_dtype="float16", sparsity=FEW), SMALL),
        (FLOATS, SMALL),
        (replace(FLOATS, bias=True, activation="relu"), TwoFourConfig(64, 2, 1, 2, 4, 2)),
        (replace(FLOATS, sparsity=WHOLE), SMALL),
    ],
    ids=str,
)
def test_outputs_are_right(workload: Gemm | FloatGemm, config: TwoFourConfig) -> None:
    assert config in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


def test_tiles_leave_stages_out() -> None:
    """Tiles of few k have less than all stages of x, at least one, and their weights lie close."""
    work = Gemm(70, 600, 1600, sparsity=FEW)
    _, constants = work.random_case(np.random.default_rng(2))
    tiling = ArrangedTiling(pruned_product(work, "tw"), SMALL)
    order, stages, *_, weight = pack_all(tiling, constants)[:5]
    tiles = tiling.sparse.weight_tiles
    counts = np.diff(stages[: tiles + 1])[: order[1]]
    assert counts.min() >= 1 and counts.sum() < 0.9 * order[0] * order[1]
    lying = weight.reshape(-1, weight.shape[-1]).any(axis=1)
    assert lying[: counts.sum()].all() and not lying[counts.sum() :].any()


@needs_nvcc
@pytest.mark.parametrize(("dtype", "m", "k"), [("int8", 70, 416), ("float16", 33, 264)])
def test_rows_are_put_in_order(dtype: str, m: int, k: int) -> None:
    """What order names, in whole stages of 128 bytes."""
    x, depth = TensorSpec("x", (m, k), dtype), 1024
    order = TensorSpec("order", (4 + depth // 2,), "int32")
    rng = np.random.default_rng(5)
    values = rng.integers(-100, 100, x.shape).astype(dtype)
    stages, each = 3, 128 // x.element.bytes
    names = rng.integers(0, k, depth).astype(np.uint16)
    given = np.concatenate([np.array([stages, 0, 0, 0], np.int32), names.view(np.int32)])
    y = TensorSpec("arranged_x", (depth // each * m, each), dtype)
    kernel = order_kernel(x, order, y, TARGET)
    (found,) = run(kernel, TARGET, [values, given], [(y.shape, y.dtype)])
    rows = found.reshape(-1, m, each)[:stages].transpose(1, 0, 2).reshape(m, -1)
    np.testing.assert_array_equal(rows, values[:, names[: stages * each]])


@pytest.mark.parametrize("size", [1, 2])
def test_lanes_meet_few_banks_twice(size: int) -> None:
    """Four lanes that read k at once take fewer turns than in any order, and groups stay groups."""
    unit = 32 // size
    groups = np.random.default_rng(6).permutation(np.arange(-128, 2048)).reshape(-1, 4)
    groups = np.where(groups < 0, NO_K, groups)

    def turns(order: np.ndarray) -> float:
        lanes = order.reshape(-1, 4, 16 // size)
        words = np.where(lanes == NO_K, -1, lanes * size // 4 % 4)
        return (words[..., None] == np.arange(4)).sum(axis=1).max(axis=-1).mean()

    found = groups.reshape(-1)[in_banks(groups, unit, size)]
    np.testing.assert_array_equal(
        *(np.sort(np.sort(stage, axis=1).view("i8,i8,i8,i8"), axis=0) for stage in (found, groups))
    )
    assert turns(found) < 1.45 < 1.9 < turns(groups)


def test_a_block_has_as_many_rows_as_there_is_room_for() -> None:
    for k, rows in ((4096, 32), (8192, 16), (20000, 8), (40000, None)):
        assert rows_of_block(TensorSpec("x", (64, k), "int8"), TARGET) == rows


def test_what_it_cannot_compute() -> None:
    for other in (
        replace(BYTES, k=410),  # rows of x begin at no multiple of 16 bytes
        replace(BYTES, n=301, epilogue=Epilogue("int8")),  # rows of y are no words
        replace(BYTES, epilogue=Epilogue("int8", "int8")),
        replace(BYTES, k=40000),
        Gemm(100, 300, 416, sparsity=replace(CLASS, pattern="vectors")),
    ):
        assert not TEMPLATE.matches(other, TARGET)
