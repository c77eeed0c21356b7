"""The 2:4 kernel: its packed weight against the weight, and its outputs on the emulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from form_cases import case_of_form
from gpu_kernels import assert_right, gpu_target
from ptx.kernels import FENCED, assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.errors import InputError
from autoq.graph.known_zeros import two_four_classes
from autoq.templates.cuda.pruned.two_four.config import A_BYTES, TwoFourConfig, TwoFourTiling
from autoq.templates.cuda.pruned.two_four.gemm_two_four import TEMPLATE
from autoq.templates.cuda.pruned.two_four.pack import pack_weight
from autoq.templates.cuda.pruned.two_four.view import two_four_product
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.short_forms.words import IS_CONVERTED, IS_READ, NEITHER
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
    view = two_four_product(workload, every_form=True)
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
    assert_right_emulated(TEMPLATE, workload, config, TARGET, FENCED)


@needs_nvcc
@pytest.mark.parametrize(
    ("out_dtype", "bounds", "scale", "bias", "form"),
    [
        ("int8", (-128, 127, 0), 3e-4, 1 << 21, IS_CONVERTED),
        ("uint8", (0, 255, 0), 3e-4, 1 << 28, IS_CONVERTED),
        ("int8", (-138, 117, 10), 3e-4, 1 << 28, IS_READ),
        ("uint8", (-131, 124, 131), 3e-4, 1 << 22, IS_READ),
        ("int8", (-100, 127, 0), 3e-4, 1 << 21, NEITHER),
        ("int8", (-138, 117, 10), 3e-5, 1 << 28, NEITHER),
        ("int8", (-138, 117, 10), 3e-4, 1 << 30, NEITHER),
    ],
    ids=["zero", "unsigned", "even", "odd", "narrow", "small scales", "large sums"],
)
def test_the_form_that_operands_allow(
    out_dtype: str, bounds: tuple[int, int, int], scale: float, bias: int, form: float
) -> None:
    """Sums beyond what their bits can say as well, which the output clamps."""
    workload = replace(BYTES, m=64, n=128, k=256, epilogue=Epilogue(out_dtype))
    values, constants = case_of_form(workload, bounds, scale, bias)
    config = TwoFourConfig(64, 1, 1, 2, 4, boxed=True)
    view = two_four_product(workload, every_form=True)
    assert view is not None
    assert view.short_form(view.terms(constants)).numbers[0] == form
    assert_right_emulated(TEMPLATE, workload, config, TARGET, FENCED, case=(values, constants))


@needs_nvcc
@pytest.mark.parametrize("residual", ["int8", "uint8"])
@pytest.mark.parametrize("out_dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("config", "converted"),
    [
        (TwoFourConfig(64, 1, 1, 2, 4, boxed=True), True),
        (TwoFourConfig(192, 2, 1, 2, 4, 1, 96), True),
        (TwoFourConfig(128, 1, 2, 2, 4, 1, 64, boxed=True), False),
    ],
)
def test_residuals(residual: str, out_dtype: str, config: TwoFourConfig, converted: bool) -> None:
    """Added in the short form, and in the general one where sums are too large for it."""
    epilogue = Epilogue(out_dtype, residual, requantize_before_add=True)
    workload = replace(BYTES, m=150, n=144, k=256, in_dtype="uint8", epilogue=epilogue)
    values, constants = workload.random_case(np.random.default_rng(2))
    if not converted:
        constants["bias"][0] = 1 << 30
    view = two_four_product(workload, every_form=True)
    assert view is not None
    form = view.short_form(view.terms(constants)).numbers[0]
    assert form == (IS_CONVERTED if converted else NEITHER)
    assert config in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET, FENCED, case=(values, constants))


@needs_nvcc
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("out_dtype", ["int8", "uint8"])
def test_tables_are_read_where_operands_allow(out_dtype: str, large: bool) -> None:
    """Values far beyond both bounds as well, which the long table clamps."""
    workload = replace(BYTES, m=64, n=128, k=256, epilogue=Epilogue(out_dtype, table=True))
    values, constants = workload.random_case(np.random.default_rng(2))
    constants["scale"][:] = 3e-4 * np.random.default_rng(3).uniform(1, 2, 128)
    constants["bias"][:3] = [1 << 24, -1 << 24, 1 << 30 if large else 0]
    view = two_four_product(workload, every_form=True)
    assert view is not None
    form = view.short_form(view.terms(constants)).numbers[0]
    assert form == (NEITHER if large else IS_READ)
    config = TwoFourConfig(64, 1, 1, 2, 4, boxed=True)
    assert_right_emulated(TEMPLATE, workload, config, TARGET, FENCED, case=(values, constants))


@needs_nvcc
@pytest.mark.parametrize(
    ("columns", "passing", "boxed"), [(128, 64, True), (128, 64, False), (192, 96, True)]
)
def test_halves_of_tiles(columns: int, passing: int, boxed: bool) -> None:
    """Four clusters have a round of whole tiles and one of halves, some of them of few rows."""
    target = replace(TARGET, units=8)
    workload = replace(BYTES, m=2 * columns + columns // 3, n=512, k=400)
    config = TwoFourConfig(columns, 2, 1, 3, 4, 2, passing, boxed, halved=True)
    view = two_four_product(workload, every_form=True)
    assert view is not None
    assert TwoFourTiling(view, config).halves(target) == 4
    assert config in TEMPLATE.space(workload, target)
    assert_right_emulated(TEMPLATE, workload, config, target, FENCED)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("columns", "blocks", "passing", "boxed"), [(192, 2, 96, True), (256, 1, 64, False)]
)
def test_halves_on_a_gpu(columns: int, blocks: int, passing: int, boxed: bool) -> None:
    """Clusters whose last pieces of work are halves, on a part of the multiprocessors."""
    target = replace(gpu_target(), units=8)
    workload = replace(BYTES, m=2 * columns + columns // 3, n=512 * blocks, k=1040)
    if not TEMPLATE.matches(workload, target):
        pytest.skip("another GPU's kernel")
    config = TwoFourConfig(columns, 2, blocks, 3, 4, 2, passing, boxed, halved=True)
    assert_right(TEMPLATE, workload, [(config, target)], target)


def test_what_halves_need() -> None:
    """A cluster of two, and a last round of which no more than half of the clusters have a tile."""
    target = replace(TARGET, units=8)
    workload = replace(BYTES, m=384, n=512)
    config = TwoFourConfig(128, 2, 1, 3, 4, 2, 64, halved=True)
    assert config in TEMPLATE.space(workload, target)
    others = (
        (replace(config, cluster=1), workload), (config, replace(workload, m=512)),
        (config, replace(workload, m=896, n=256)), (replace(config, passing=128), workload),
    )  # fmt: skip
    assert not any(one in TEMPLATE.space(work, target) for one, work in others)
    default = TEMPLATE.default(workload, target)
    seconds = TEMPLATE.estimate
    assert seconds is not None
    assert seconds(workload, default, target) <= seconds(workload, config, target)
    whole = replace(config, halved=False)
    assert seconds(workload, config, target) < seconds(workload, whole, target)


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
