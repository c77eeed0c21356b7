"""Residual products on the emulator: every way in which sides take part, sizes, orders and bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ptx.kernels import MODES, run_program
from with_nvcc import needs_nvcc

from autoq.templates.cuda.device.residual import cut_vectors
from autoq.templates.cuda.device.residual.nibbles import packed_nibbles
from autoq.templates.cuda.device.residual.parts_of_sums import ROUGH_COLUMN, ROUGH_ROW
from autoq.templates.cuda.device.residual.plan import inner_product
from autoq.templates.cuda.mma_sync import conv2d_mma_sync, residual_gemm_mma_sync
from autoq.templates.cuda.wgmma import gemm_wgmma, residual_gemm_wgmma
from autoq.templates.cuda.wgmma.config import SplitTeam
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.oracle.residual_quantisation import largest_integer
from autoq.templates.target import parse_target

HOPPER, AMPERE = parse_target("cuda:sm_90a"), parse_target("cuda:sm_80")
WHERE = {
    "wgmma": (residual_gemm_wgmma, gemm_wgmma, HOPPER),
    "few units": (residual_gemm_wgmma, gemm_wgmma, replace(HOPPER, units=2)),
    "mma_sync": (residual_gemm_mma_sync, conv2d_mma_sync, AMPERE),
}
SQUARE = ResidualGemm(150, 140, 72)
"""A twentieth of both sides matters."""

# Where, workload, threshold, crossover, knobs: both sides by lists, by lists that a warp takes in
# several turns; both as a whole, and by products of what is kept, of columns that a cluster holds;
# a as a whole, and b by a product of what is kept, for which lists are too short;
# everything; nothing. Bands: of both sides; of which some are longer than what is asked for ahead;
# of b's side alone, and of a's; of b in rows; of panels that blocks take one behind the other
# and pass both ways. Then 4 bits that mma.sync multiplies two a byte: products of what is kept,
# everything and no correction.
CASES: list[tuple[str, ResidualGemm, float, float, dict[str, Any]]] = [
    ("wgmma", SQUARE, 0.8, 0.1, {"column_parts": 1, "share": 1 / 16}),
    ("few units", ResidualGemm(70, 233, 600), 0.8, 1.0,
     {"panel_rows": 8, "share": 1 / 4}),
    ("mma_sync", ResidualGemm(133, 30, 700), 0.8, 1.0, {"panel_rows": 16, "share": 1 / 4}),
    ("wgmma", ResidualGemm(20, 70, 1500), 0.8, 0.0, {}),
    ("wgmma", ResidualGemm(20, 70, 1500, 4), 0.8, 1.0, {"share": 1 / 256}),
    ("mma_sync", replace(SQUARE, n=139, k=67, b_order="nk", bias=True), 0.8, 0.048,
     {"panel_rows": 8, "share": 1 / 256}),
    ("wgmma", ResidualGemm(3, 2, 2200, 4, constant_b=True, bias=True), 0.0, 0.5, {}),
    ("mma_sync", ResidualGemm(1, 1, 1), np.inf, 0.0, {}),
    ("wgmma", replace(SQUARE, n=300), 0.8, 0.1, {"bands": True, "share": 1 / 4}),
    ("wgmma", ResidualGemm(70, 133, 600), 0.5, 1.0, {"bands": True, "share": 1.0}),
    ("wgmma", replace(SQUARE, k=600), 0.8, 0.0509, {"bands": True, "share": 1 / 4}),
    ("wgmma", replace(SQUARE, n=1100), 0.8, 0.0513, {"bands": True, "share": 1 / 4}),
    ("mma_sync", replace(SQUARE, k=67, b_order="nk", bias=True), 0.8, 0.048,
     {"bands": True, "share": 1 / 4, "column_parts": 2}),
    ("few units", replace(SQUARE, n=1100, bias=True), 0.8, 1.0, {"bands": True, "share": 1 / 4,
      "pieces_ahead": True}),
    ("mma_sync", ResidualGemm(37, 30, 150, 4, constant_b=True, bias=True), 0.8, 1.0,
     {"share": 1 / 256}),
    ("mma_sync", ResidualGemm(37, 70, 150, 4, "full", "nk"), 0.0, 0.0, {}),
    ("mma_sync", ResidualGemm(3, 5, 200, 4, "none", constant_b=True, bias=True), 0.0, 0.0, {}),
]  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("where, workload, threshold, crossover, knobs", CASES)
def test_every_way_is_right(
    where: str, workload: ResidualGemm, threshold: float, crossover: float, knobs: dict[str, Any]
) -> None:
    _assert_right(where, workload, threshold, crossover, knobs)


TOGETHER = {"block_n": 64, "m_blocks": 1, "team": SplitTeam(2, True), "rough_sums": True,
            "bands": True, "share": 1 / 4}  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("errors", [(ROUGH_ROW, ROUGH_COLUMN), (0.2, 0.2)],
                         ids=["few again", "some again"])  # fmt: skip
def test_cuts_of_rough_sums_are_exact(
    errors: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors whose sums leave a choice that decides are weighed again, 54 of 150 rows here."""
    monkeypatch.setattr(cut_vectors, "ROUGH_ROW", errors[0])
    monkeypatch.setattr(cut_vectors, "ROUGH_COLUMN", errors[1])
    _assert_right("wgmma", replace(SQUARE, n=300), 0.8, 0.1, TOGETHER)


def _assert_right(
    where: str, workload: ResidualGemm, threshold: float, crossover: float, knobs: dict[str, Any]
) -> None:
    module, _, target = WHERE[where]
    template = module.TEMPLATE
    config = replace(template.default(workload, target), **knobs)
    inputs, constants = workload.random_case(np.random.default_rng(5))
    if workload.correction == "sparse":
        constants["threshold"] = np.array([threshold], np.float32)
        constants["crossover"] = np.array([crossover], np.float32)
    (expected,) = workload.reference(inputs, constants)
    specs = template.packed(workload, config)
    packed = template.constants(workload, config, constants)
    arrays = {spec.name: array for spec, array in zip(specs, packed, strict=True)}
    arrays |= {spec.name: array for spec, array in zip(workload.inputs, inputs, strict=True)}
    outputs = {"y": (expected.shape, "float32")}
    program = template.program(workload, config, target)
    names = {spec.name for spec in specs}
    for mode in MODES.values():
        y = run_program(program, target, arrays, outputs, mode, names)["y"]
        assert np.abs(y - expected).max() <= 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize(("where", "bits"), [("wgmma", 8), ("mma_sync", 8), ("mma_sync", 4)])
def test_weights_lie_where_the_product_has_them(where: str, bits: int) -> None:
    module, inner, target = WHERE[where]
    rng = np.random.default_rng(2)
    for extents in ((70, 40, 48), (300, 200, 336), (64, 16, 1024)):
        workload = ResidualGemm(*extents, bits)
        product = inner_product(workload, bits == 4)
        space = module.TEMPLATE.space(workload, target)
        most = largest_integer(bits)
        weight = rng.integers(-most, most + 1, product.weight_shape, np.int8)
        given = {"weight": weight, "bias": np.zeros(product.n, np.int32)}
        for config in space.sample(rng, 12):
            assert config.nibbles == (bits == 4)
            packed, _ = inner.TEMPLATE.pack(product, config, given)
            values = module.weight_layout(product, config).pack(weight)
            found = packed_nibbles(values) if config.nibbles else values
            np.testing.assert_array_equal(found, packed.reshape(-1))


def test_values_of_4_bits_are_multiplied_as_the_tensor_cores_take_them() -> None:
    workload = ResidualGemm(64, 64, 64, 4)
    for arch, compute in (("sm_75", "s4"), ("sm_86", "s4"), ("sm_89", "s4"), ("sm_90a", "s8")):
        target = parse_target(f"cuda:{arch}")
        assert residual_gemm_mma_sync.TEMPLATE.default(workload, target).compute == compute
        default = residual_gemm_mma_sync.TEMPLATE.default(replace(workload, bits=8), target)
        assert default.compute == "s8"
