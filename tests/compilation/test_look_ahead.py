"""Kernels that ask for the constants of those behind them: when, how much, and nothing else."""

from __future__ import annotations

import re
import runpy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models.oracle import random_feeds
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

import autoq
from autoq.compilation.look_ahead import AHEAD_BYTES, looking_ahead
from autoq.devices import Host, resolve
from autoq.models import bert
from autoq.quantization.quantize import quantize
from autoq.runtime.artifact import read_artifact
from autoq.templates.base import Template
from autoq.templates.cuda.device.memory.look_ahead import look_ahead
from autoq.templates.cuda.pruned.two_four import gemm_two_four
from autoq.templates.cuda.pruned.two_four.config import TwoFourConfig
from autoq.templates.cuda.wgmma import gemm_wgmma, residual_gemm_wgmma
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.registry import TEMPLATES
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.target import parse_target
from autoq.templates.workload import Workload

HOPPER = parse_target("cuda:sm_90a")
CASES = Path(__file__).parents[2] / "scripts" / "cases" / "small_cases.py"


@dataclass(frozen=True)
class Chosen:
    """What is asked of a selection."""

    constant_bytes: int
    ahead: int = 0

    def looking_ahead(self, ahead: int) -> Chosen:
        return replace(self, ahead=ahead)


def small_bert(folder: Path) -> Path:
    onnx.save(bert(1, length=16, width=32, heads=2), folder / "float.onnx")
    quantize(folder / "float.onnx", None, folder / "int8.onnx")
    return folder / "int8.onnx"


def test_only_networks_of_more_constants_than_the_cache_holds_look_ahead() -> None:
    half = HOPPER.l2_bytes // 2
    for last, ahead in ((half, 0), (half + 1, AHEAD_BYTES)):
        found = looking_ahead([Chosen(half), Chosen(last)], HOPPER)
        assert [one.ahead for one in found] == [ahead, ahead]
    unknown = replace(HOPPER, l2_bytes=0)
    (one,) = looking_ahead([Chosen(1 << 40)], unknown)
    assert one.ahead == 0


@pytest.mark.parametrize(("ahead", "blocks"), [(2_400_000, 128), (100, 3), (16, 132), (1, 1)])
def test_blocks_share_out_all_of_it(ahead: int, blocks: int) -> None:
    source = look_ahead(4096, ahead, blocks).source
    assert "+ 4096ll + " in source
    (share,) = {int(found) for found in re.findall(r'"r"\((\d+)\)', source)}
    assert share % 16 == 0 and ahead <= share * blocks < ahead + 16 * blocks


@needs_nvcc
@pytest.mark.parametrize("early_loads", [0, 1])
@pytest.mark.parametrize("epilogue", [Epilogue("uint8", table=True), Epilogue()], ids=str)
def test_a_product_that_looks_ahead_is_right(epilogue: Epilogue, early_loads: int) -> None:
    template = replace(gemm_wgmma.TEMPLATE, build=partial(gemm_wgmma.build, ahead=5000))
    workload = Gemm(128, 128, 192, "uint8", epilogue=epilogue)
    config = replace(template.default(workload, HOPPER), early_loads=early_loads)
    assert_right_emulated(template, workload, config, HOPPER)


@needs_nvcc
@pytest.mark.parametrize("cluster", [1, 2])
def test_a_sparse_product_that_looks_ahead_is_right(cluster: int) -> None:
    template = replace(gemm_two_four.TEMPLATE, build=partial(gemm_two_four.build, ahead=5000))
    workload = Gemm(128, 256, 192, "uint8", sparsity=Sparsity.two_four())
    config = TwoFourConfig(64, 1, 1, 2, 4, cluster)
    assert_right_emulated(template, workload, config, HOPPER)


def has_constants(workload: Workload) -> bool:
    """Whether weights, or what is called b, are among a workload's constants."""
    return bool({spec.name for spec in workload.constants} & {"weight", "weight_0", "b"})


@pytest.mark.parametrize(
    "template", [one for one in TEMPLATES if one.looks_ahead], ids=lambda one: one.name
)
def test_templates_look_ahead_when_they_are_asked(template: Template) -> None:
    cases = runpy.run_path(str(CASES))["CASES"]
    workload = next(one for one in cases if template.matches(one, HOPPER) and has_constants(one))
    config = template.default(workload, HOPPER)
    for ahead in (0, 5000):
        program = template.program(workload, config, HOPPER, ahead)
        scripts = "".join(stage.function.script() for stage in program.stages)
        assert ("look_ahead" in scripts) == (ahead > 0)


@pytest.mark.parametrize("constant", [False, True])
def test_a_residual_product_looks_ahead_behind_constants_alone(constant: bool) -> None:
    workload = ResidualGemm(128, 128, 192, constant_b=constant)
    template = residual_gemm_wgmma.TEMPLATE
    program = template.program(workload, template.default(workload, HOPPER), HOPPER, 5000)
    scripts = "".join(stage.function.script() for stage in program.stages)
    assert ("look_ahead" in scripts) == constant


@needs_nvcc
def test_there_are_as_many_bytes_behind_the_last_constants(tmp_path: Path) -> None:
    path = small_bert(tmp_path)
    sizes = []
    for l2_bytes in (HOPPER.l2_bytes, 64):
        host = Host(replace(HOPPER, l2_bytes=l2_bytes), None)
        kept = tmp_path / "kernels"  # most are the same
        autoq.compile(path, target=host, output=tmp_path / "a.autoq", cache_dir=kept)
        sizes.append(read_artifact(tmp_path / "a.autoq").plan.constant_bytes)
    assert sizes[1] == sizes[0] + AHEAD_BYTES


@pytest.mark.gpu
def test_a_network_that_looks_ahead_gives_the_same(tmp_path: Path) -> None:
    path, host, outputs = small_bert(tmp_path), resolve("cuda"), []
    for l2_bytes in (host.target.l2_bytes, 64):
        own = replace(host, target=replace(host.target, l2_bytes=l2_bytes))
        autoq.compile(path, target=own, output=tmp_path / "a.autoq")
        outputs.append(autoq.Session(tmp_path / "a.autoq").run(None, random_feeds(path))[0])
    np.testing.assert_array_equal(*outputs)
