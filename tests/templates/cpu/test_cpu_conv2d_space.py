"""The convolution space: legal defaults, named rules, estimates and what the compiler makes."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import tvm
from cpu_kernels import check, host, random_layer

from autoq.kernel.lowering import tvm_target
from autoq.templates.cpu.conv import conv2d_direct, conv2d_pairs, conv2d_vnni
from autoq.templates.cpu.conv.cost import estimated_cycles
from autoq.templates.cpu.conv.tiling import ConvTiling, normalised
from autoq.templates.cpu.dot import vnni
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import templates_in
from autoq.templates.target import Target

CPU_TEMPLATES = templates_in("autoq.templates.cpu")
SERVER = Target("cpu", "znver5", units=2, vnni=True, avx512=True, avx2=True)
SKYLAKE = Target("cpu", "skylake-avx512", units=2, avx512=True, avx2=True)
LAPTOP = Target("cpu", "haswell", units=4, avx2=True)
RESNET = [
    Conv2d(1, 224, 224, 3, 64, 7, 7, (2, 2), (3, 3, 3, 3), zero_point_border=True),
    Conv2d(1, 56, 56, 64, 64, 3, 3, padding=(1, 1, 1, 1), zero_point_border=True),
    Conv2d(1, 56, 56, 64, 128, 1, 1, (2, 2)),
    Conv2d(1, 7, 7, 512, 512, 3, 3, padding=(1, 1, 1, 1), zero_point_border=True),
    Conv2d(8, 14, 14, 1024, 256, 1, 1),
    Gemm(1, 1000, 512),
    Gemm(64, 1, 3),
]


@pytest.mark.parametrize("target", [SERVER, LAPTOP], ids=["vnni", "avx2"])
@pytest.mark.parametrize("workload", RESNET, ids=str)
def test_defaults_are_legal_and_spaces_modest(workload, target):
    for template in CPU_TEMPLATES:
        if template.matches(workload, target):
            space = template.space(workload, target)
            assert template.default(workload, target) in space
            assert 1 <= sum(1 for _ in space.enumerate()) <= 5000


def test_preferred_template():
    matching = [t.name for t in CPU_TEMPLATES if t.matches(RESNET[1], SERVER)]
    assert matching == ["conv2d_vnni", "conv2d_direct_cpu"]
    matching = [t.name for t in CPU_TEMPLATES if t.matches(RESNET[1], LAPTOP)]
    assert matching == ["conv2d_pairs", "conv2d_direct_cpu"]
    cuda = Target("cuda", "sm_90a")
    assert not any(t.matches(RESNET[1], cuda) for t in CPU_TEMPLATES)


def test_mixed_float_workloads_are_refused():
    workload = Gemm(4, 4, 4, "float32", "float32", Epilogue("int8"))
    assert not any(t.matches(workload, SERVER) for t in CPU_TEMPLATES)


def test_rejections_name_their_rule():
    space = conv2d_vnni.TEMPLATE.space(RESNET[1], SERVER)
    config = conv2d_vnni.TEMPLATE.default(RESNET[1], SERVER)
    too_large = dataclasses.replace(config, tile_p=4, tile_q=14, vectors=4)
    assert "fits_registers" in space.rejection(too_large)
    too_tall = dataclasses.replace(config, tile_p=2, tile_q=4, vectors=1, rows=1)
    assert "tile_within_rows" in space.rejection(too_tall)


def test_estimate_prefers_both_cores_and_full_tiles():
    conv = normalised(RESNET[1])
    default = conv2d_vnni.TEMPLATE.default(RESNET[1], SERVER)
    cycles = lambda config: estimated_cycles(ConvTiling(conv, config, vnni("int8")), 2)  # noqa: E731
    one_task = dataclasses.replace(default, rows=56, channel_tasks=1)
    one_pixel = dataclasses.replace(default, tile_p=1, tile_q=1, vectors=1)
    assert cycles(default) < 0.6 * cycles(one_task)
    assert cycles(default) < 0.5 * cycles(one_pixel)


def test_features_are_finite():
    space = conv2d_vnni.TEMPLATE.space(RESNET[3], SERVER)
    configs = space.sample(np.random.default_rng(0), 20)
    features = space.encode(configs)
    assert features.shape == (20, len(space.feature_names))
    assert np.isfinite(features).all()


@pytest.mark.skipif(not host().avx2, reason="this CPU has no AVX2")
def test_sampled_configurations_are_correct():
    """Of the template that this CPU prefers."""
    workload = Conv2d(2, 13, 15, 32, 56, 3, 3, padding=(1, 1, 1, 1), zero_point_border=True)
    layer = random_layer(workload)
    template = next(t for t in CPU_TEMPLATES if t.matches(workload, host()))
    assert template is not conv2d_direct.TEMPLATE
    for config in template.space(workload, host()).sample(np.random.default_rng(1), 6):
        check(template, workload, *layer, config=config)


@pytest.mark.parametrize("workload", [RESNET[1], RESNET[3]], ids=str)
def test_inner_loop_is_register_vnni(workload):
    config = conv2d_vnni.TEMPLATE.default(workload, SERVER)
    assembly = _assembly(conv2d_vnni.TEMPLATE.build(workload, config, SERVER), SERVER)
    products = config.tile_p * config.tile_q * config.vectors
    loops = [block for block in _loops(assembly) if "vpdpbusd" in block]
    assert loops
    for body in loops:
        assert body.count("vpdpbusd") % products == 0
        assert not re.search(r"zmm\d+, -?\d*\(%rsp\)", body), "an accumulator is spilled"
        assert not re.search(r"\(%rsp\), %zmm", body), "an accumulator is reloaded"
    assert "vrndscaleps" in assembly and "vpmovdb" in assembly


@pytest.mark.parametrize("target", [LAPTOP, SKYLAKE], ids=["avx2", "avx512"])
def test_inner_loop_multiplies_pairs_in_registers(target):
    config = conv2d_pairs.TEMPLATE.default(RESNET[1], target)
    assembly = _assembly(conv2d_pairs.TEMPLATE.build(RESNET[1], config, target), target)
    products = config.tile_p * config.tile_q * config.vectors
    register = "zmm" if target.avx512 else "ymm"
    loops = [block for block in _loops(assembly) if block.count("vpmaddwd") >= products]
    assert loops
    for body in loops:
        assert register in body
        assert not re.search(rf"{register}\d+, -?\d*\(%rsp\)", body), "an accumulator is spilled"


def test_float32_inner_loop_is_fma():
    workload = Conv2d(1, 28, 28, 64, 64, 3, 3, padding=(1, 1, 1, 1), in_dtype="float32",
                      weight_dtype="float32", epilogue=Epilogue("float32"))  # fmt: skip
    for target, register in ((SERVER, "zmm"), (LAPTOP, "ymm")):
        config = conv2d_direct.TEMPLATE.default(workload, target)
        assembly = _assembly(conv2d_direct.TEMPLATE.build(workload, config, target), target)
        products = config.tile_p * config.tile_q * config.vectors
        loops = [block for block in _loops(assembly) if block.count("vfmadd") >= products]
        assert loops
        for body in loops:
            assert register in body
            assert not re.search(rf"{register}\d+, -?\d*\(%rsp\)", body)


def _assembly(function, target) -> str:
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    compiled = tvm.compile(module, target=tvm_target(target), tir_pipeline="tirx")
    return compiled.mod.inspect_source("s")


def _loops(assembly: str) -> list[str]:
    """Bodies of the innermost loops: a label up to a jump back to it without labels between."""
    return [match.group(0) for match in re.finditer(
        r"^(\.LBB\d+_\d+):\n(?:(?!\.LBB)[^\n]*\n)*?\tj\w+\t\1\n", assembly, re.MULTILINE)
    ]  # fmt: skip
