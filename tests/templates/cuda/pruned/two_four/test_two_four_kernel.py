"""The 2:4 kernel: its packed weight against the weight, and its outputs on the emulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.errors import InputError
from autoq.graph.known_zeros import two_four_classes
from autoq.templates.cuda.pruned.two_four.config import A_BYTES, TwoFourConfig, TwoFourTiling
from autoq.templates.cuda.pruned.two_four.gemm_two_four import TEMPLATE
from autoq.templates.cuda.pruned.two_four.pack import pack_weight
from autoq.templates.cuda.pruned.two_four.view import view_of
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
BYTES = Gemm(100, 300, 512, sparsity=Sparsity.two_four())
FLOATS = FloatGemm(100, 300, 200, weight_dtype="float16", sparsity=Sparsity.two_four())


@pytest.mark.parametrize("workload", [BYTES, FLOATS], ids=str)
def test_stages_hold_the_weight(workload: Gemm | FloatGemm) -> None:
    """Each thread's register of metadata spreads the kept values of its rows, as PTX says."""
    view = view_of(workload)
    assert view is not None
    tiling = TwoFourTiling(view, TwoFourConfig(128, 2, 1, 3, 4))
    _, constants = workload.random_case(np.random.default_rng(1))
    weight = np.asarray(constants["weight"])
    packed = pack_weight(tiling, constants)
    k, depth = tiling.atom.k, tiling.k_stages * tiling.steps * tiling.atom.k
    fragment = tiling.atom.metadata_fragment()
    found = np.zeros((tiling.terms, depth), weight.dtype)
    count = tiling.steps * tiling.row_blocks
    for tile, stages in enumerate(packed):
        for number, stage in enumerate(stages):
            kept = stage[: count * A_BYTES].reshape(count, 2, 64, 16)
            words = stage[count * A_BYTES :].view(np.uint32).reshape(count, 128)
            for at in range(count):
                values = kept[at].transpose(1, 0, 2).reshape(64, 32).view(weight.dtype)
                pairs = values.reshape(64, k // 4, 2)
                step, block = divmod(at, tiling.row_blocks)
                first = (tile * tiling.row_blocks + block) * 64
                column = (number * tiling.steps + step) * k
                for thread in range(128):
                    for chunk in range(8):
                        row, place = fragment[thread, 0, chunk]
                        bits = int(words[at, thread]) >> 4 * chunk & 15
                        own = first + row // 16 * 16
                        own += 2 * (row % 16) if row % 16 < 8 else 2 * (row % 16) - 15
                        for value, index in zip(
                            pairs[row, place], (bits & 3, bits >> 2), strict=True
                        ):
                            found[own, column + 4 * place + index] = value
    np.testing.assert_array_equal(found[:300, : weight.shape[1]], weight)
    assert not found[300:].any() and not found[:, weight.shape[1] :].any()


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (BYTES, TwoFourConfig(128, 2, 1, 3, 4)),
        (replace(BYTES, m=300, n=304), TwoFourConfig(192, 2, 1, 2, 4, boxed=True)),
        (replace(BYTES, n=496), TwoFourConfig(128, 2, 2, 3, 4, 2, boxed=True)),
        (replace(FLOATS, n=304, bias=True), TwoFourConfig(128, 1, 1, 2, 4, 1, 128, boxed=True)),
        (
            replace(BYTES, m=300, n=200, k=208, in_dtype="uint8", epilogue=Epilogue("int32")),
            TwoFourConfig(64, 1, 2, 2, 4),
        ),
        (
            replace(BYTES, weight_dtype="uint8", epilogue=Epilogue("uint8", table=True)),
            TwoFourConfig(192, 3, 1, 2, 16),
        ),
        (
            replace(BYTES, n=202, epilogue=Epilogue("float16", float_bias=True)),
            TwoFourConfig(64, 1, 1, 4, 8),
        ),
        (replace(FLOATS, bias=True), TwoFourConfig(128, 2, 1, 3, 4)),
        (replace(FLOATS, n=250, bias=True), TwoFourConfig(128, 2, 1, 2, 4, 2, 128)),
        (
            FloatGemm(70, 99, 72, "bfloat16", "bfloat16", "float32", activation="gelu_tanh",
                      sparsity=Sparsity.two_four()),
            TwoFourConfig(128, 1, 1, 2, 4),
        ),
    ],
    ids=[
        "bytes", "boxes", "boxes of clusters", "boxes of floats", "sums", "table", "float bias",
        "floats", "clusters", "bfloat16",
    ],
)  # fmt: skip
def test_outputs_are_right(workload: Gemm | FloatGemm, config: TwoFourConfig) -> None:
    assert config in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


def test_what_it_declines() -> None:
    assert TEMPLATE.matches(BYTES, TARGET) and TEMPLATE.matches(FLOATS, TARGET)
    assert not TEMPLATE.matches(BYTES, parse_target("cuda:sm_80"))
    others = (
        BYTES.dense, replace(BYTES, k=200), replace(BYTES, n=301), replace(FLOATS, residual=True),
        replace(BYTES, epilogue=Epilogue("int8", "int8")),
    )  # fmt: skip
    assert not any(TEMPLATE.matches(workload, TARGET) for workload in others)


def test_what_is_no_two_four_weight() -> None:
    _, constants = BYTES.random_case(np.random.default_rng(1))
    weight = constants["weight"]
    assert list(two_four_classes(weight)) == [Sparsity.two_four()]
    BYTES.check_constants(constants)
    weight[5, 8:11] = 1
    assert list(two_four_classes(weight)) == []
    with pytest.raises(InputError, match="more than two of four neighbours along k"):
        BYTES.check_constants(constants)
