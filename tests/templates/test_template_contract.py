"""What every template promises, over workloads and targets that it says it matches."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from with_nvcc import needs_nvcc

from autoq.kernel.lowering import Lowered, cuda_source, lower
from autoq.kernel.nvcc import needed_headers, run_nvcc
from autoq.measure.arrays import random_case
from autoq.templates.base import Template
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.add import Add
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.lookup import Lookup
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.operators.relayout import Relayout
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.operators.sddmm import Sddmm
from autoq.templates.operators.shared_float_gemm import SharedFloatGemm
from autoq.templates.operators.shared_gemm import SharedGemm
from autoq.templates.operators.sparse_attention import SparseAttention
from autoq.templates.operators.spmm import Spmm
from autoq.templates.program import Program
from autoq.templates.registry import TEMPLATES, matching
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.structure import Structure
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Workload

CUDA = [parse_target(f"cuda:{arch}") for arch in ("sm_75", "sm_80", "sm_89", "sm_90a")]
CPU = [
    Target("cpu", "znver5", units=2, vnni=True, avx512=True, avx2=True),
    Target("cpu", "haswell", units=2, avx2=True),
]
RESIDUAL = Epilogue("uint8", "uint8", True)
WORKLOADS: list[Workload] = [
    Conv2d(2, 14, 14, 64, 64, 3, 3, padding=(1, 1, 1, 1), in_dtype="uint8", epilogue=RESIDUAL),
    Conv2d(1, 15, 13, 32, 40, 3, 3, (2, 2), (0, 1, 1, 0), zero_point_border=True),
    Conv2d(1, 12, 12, 16, 64, 4, 4, padding=(2, 2, 1, 1), in_dtype="int8"),
    Conv2d(2, 11, 12, 32, 48, 3, 3, (2, 1), (1, 1, 1, 1), epilogue=Epilogue("uint8")),
    Conv2d(2, 9, 9, 128, 256, 1, 1, epilogue=Epilogue("float32")),
    Conv2d(1, 11, 11, 48, 48, 3, 3, padding=(1, 1, 1, 1), groups=48),
    Conv2d(1, 8, 8, 3, 5, 3, 3, dilation=(2, 2), in_dtype="float32", weight_dtype="float32",
           epilogue=Epilogue("float32")),
    Gemm(8, 1000, 512, in_dtype="uint8"),
    *(Gemm(8, 48, 64), Gemm(3, 10, 64, epilogue=Epilogue("int32"))),
    Gemm(4, 24, 35, epilogue=Epilogue("bfloat16", row_scale=True, float_bias=True)),
    BatchedGemm(1, 17, 20, 16, 2, "uint8", "int8", "bmhk", "bnhk"),
    BatchedGemm(2, 5, 6, 9, other_order="bhkn", epilogue=Epilogue("uint8", "int8", True)),
    ResidualGemm(20, 24, 35, correction="none"),
    Pool2d("max", 2, 15, 15, 32, 3, 3, (2, 2), (1, 1, 1, 1)),
    Pool2d("average", 2, 7, 7, 64, 7, 7, in_dtype="uint8", out_dtype="uint8", requantize=True),
    Add((2, 7, 7, 32)),
    Concat(49, (16, 24), ("int8", "uint8"), (False, True)),
    Quantize(2, 16, 16, 3, 16, 2),
    Dequantize(2, 7, 7, 24),
    Lookup((2, 7, 7, 24)),
]  # fmt: skip
BLOCKED = [
    Conv2d(8, 7, 7, 32, 48, 3, 3, in_layout="NHWCnc", out_layout="NHWCnc", epilogue=RESIDUAL),
    Conv2d(8, 7, 7, 32, 24, 1, 1, in_layout="NHWCnc"),
    Conv2d(8, 9, 9, 24, 32, 3, 3, out_layout="NHWCnc"),
]
FOUR_BIT = [
    Conv2d(2, 9, 9, 64, 37, 3, 3, padding=(1, 1, 1, 1), in_dtype="uint4", weight_dtype="int4",
           zero_point_border=True, epilogue=Epilogue("int4", "uint4")),
    Conv2d(2, 9, 9, 12, 24, 3, 3, weight_dtype="int4", epilogue=Epilogue("uint4")),
]  # fmt: skip
TABLE = Epilogue("uint8", table=True)
WITH_TABLE = [
    Conv2d(2, 14, 14, 32, 48, 3, 3, padding=(1, 1, 1, 1), zero_point_border=True, epilogue=TABLE),
    Conv2d(1, 11, 11, 48, 48, 3, 3, padding=(1, 1, 1, 1), groups=48, epilogue=TABLE),
    Conv2d(8, 9, 9, 32, 32, 1, 1, out_layout="NHWCnc", epilogue=Epilogue("int8", table=True)),
    Gemm(8, 40, 64, in_dtype="uint8", epilogue=TABLE),
]
FLOAT_PRODUCTS = [
    FloatGemm(70, 136, 320, "bfloat16", "int8", "bfloat16", bias=True, activation="gelu_tanh"),
    FloatGemm(9, 64, 256, weight_dtype="uint4", group=64, zero_points=True),
    FloatGemm(40, 72, 64, weight_dtype="float16"),
    FloatConv2d(1, 9, 8, 24, 72, 3, 3, (2, 1), (1, 0, 1, 1), bias=True, activation="silu"),
    FloatConv2d(1, 9, 8, 24, 32, 3, 3, (1, 2), (1, 0, 1, 1), activation="relu", groups=8),
    BatchedGemm(2, 33, 24, 49, 2, *["float16"] * 2, "bhmk", "bhkn", epilogue=Epilogue("float16")),
    BatchedGemm(1, 40, 40, 64, 2, "bfloat16", "bfloat16", epilogue=Epilogue("float32")),
    FloatGemm(5, 37, 100, "float32", "int4", "float32", bias=True),
    Attention(1, 2, 40, 70, 24, *["bfloat16"] * 3, "bfloat16", mask_axes="hmn", constant_mask=True),
    Attention(1, 2, 40, 70, 64, *["uint8"] * 3, "int8", quantised_scores=True),
]  # fmt: skip
TILES = Sparsity("tw", 16, 40, Structure(96, 32, 64))
SPARSE = [
    Gemm(40, 50, 70, sparsity=TILES), Gemm(40, 52, 80, sparsity=Sparsity.two_four()),
    Gemm(48, 64, 70, sparsity=Sparsity("vectors", 16, 64, Structure(96, 28, 40))),
    FloatGemm(40, 72, 64, weight_dtype="float16", sparsity=TILES),
    Spmm(40, 48, 150, 8, Structure(96, 20, 40)),
    Spmm(70, 48, 150, 32, Structure(96, 28, 40)),
    Spmm(21, 33, 40, 2, Structure(48, 5, 16), "uint8", epilogue=Epilogue("float32", "int8")),
    Sddmm(40, 48, 150, 8, Structure(96, 20, 40)),
    SparseAttention(1, 2, 61, 300, 64, Structure(224, 28, 80), softmax_bits=16),
    SparseAttention(1, 1, 24, 64, 40, Structure(80, 28, 56), "bfloat16", 8, 4),
    Sddmm(21, 33, 40, 2, Structure(48, 5, 16), "uint16", "int16", "float16", 16),
]  # fmt: skip
NIBBLES = Gemm(7, 33, 66, "uint4", "int4")
RELAYOUT = Relayout(8, 5, 6, 48, "NHWCnc", "NHWC", "uint8")
OF_ALL = [*WORKLOADS, *BLOCKED, *FOUR_BIT, *WITH_TABLE, *FLOAT_PRODUCTS, *SPARSE,
          SharedGemm(2, 20, 40, 64, epilogue=TABLE), NIBBLES, RELAYOUT,
          SharedFloatGemm(3, 20, 40, 64, weight_dtype="int4", group=32)]  # fmt: skip
CASES = [
    (template, workload, target)
    for target in (*CUDA, *CPU)
    for workload in OF_ALL
    for template in matching(workload, target)
]

GROUPS: dict[tuple[str, Workload, str], tuple[Template, Workload, list[Target]]] = {}
for _template, _workload, _target in CASES:
    _place = (_template.name, _workload, _target.kind)
    GROUPS.setdefault(_place, (_template, _workload, []))[2].append(_target)


@functools.cache
def default_of(template: Template, workload: Workload, target: Target) -> Any:
    """The default, which several tests ask for."""
    return template.default(workload, target)


def distinct(template: Template, workload: Workload, targets: list[Target]) -> list[Target]:
    """Those whose default configuration is none of the targets before them."""
    found: dict[Any, Target] = {}
    for target in targets:
        found.setdefault(default_of(template, workload, target), target)
    return list(found.values())


@functools.cache
def program_of(template: Template, workload: Workload, target: Target) -> Program:
    """The default's, which several tests look at."""
    return template.program(workload, default_of(template, workload, target), target)


@functools.cache
def lowered(template: Template, workload: Workload, target: Target) -> list[Lowered]:
    return [
        lower(stage.function, target) for stage in program_of(template, workload, target).stages
    ]


def name_of(case: object) -> str:
    if isinstance(case, Template):
        return case.name
    if isinstance(case, list):
        return " ".join(map(name_of, case))
    return case.arch if isinstance(case, Target) else str(case)


def test_names_are_unique() -> None:
    names = [template.name for template in TEMPLATES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("target", [*CUDA, *CPU], ids=name_of)
def test_every_workload_has_a_template(target: Target) -> None:
    assert all(matching(workload, target) for workload in WORKLOADS)


@pytest.mark.parametrize("workload", BLOCKED + FOUR_BIT, ids=str)
def test_only_templates_that_know_layout_and_dtype_take_it(workload: Workload) -> None:
    assert not any(matching(workload, target) for target in CPU)
    for target in CUDA:
        assert [template.name for template in matching(workload, target)] == ["conv2d_mma_sync"]


def test_wgmma_unpacks_four_bit_weights_when_it_packs_them() -> None:
    """The kernel is that of int8 weights, and so are its constants."""
    workload = Conv2d(1, 9, 9, 32, 32, 3, 3, weight_dtype="int4")
    target = CUDA[-1]
    _, constants = random_case(workload, 0)
    found = [template for template in matching(workload, target) if "mma_sync" not in template.name]
    assert {t.name for t in found} >= {"conv2d_swapped", "conv2d_halo", "conv2d_im2col"}
    for template in found:
        eight = replace(workload, weight_dtype="int8")
        config = template.default(workload, target)
        assert config == template.default(eight, target)
        if template.name in ("conv2d_swapped", "conv2d_tap"):  # one of each of the two kernels
            tvm.ir.assert_structural_equal(
                *(template.build(w, config, target) for w in (workload, eight))
            )
        packs = [template.pack(w, config, constants) for w in (workload, eight)]
        # As bytes: some constants are integers in the guise of floats, which may be NaN.
        assert len({tuple(array.tobytes() for array in arrays) for arrays in packs}) == 1


@pytest.mark.parametrize("target", CUDA, ids=name_of)
def test_templates_say_whether_four_bit_weights_stay_packed(target: Target) -> None:
    workload = Conv2d(1, 9, 9, 64, 64, 3, 3, weight_dtype="int4")
    _, constants = random_case(workload, 0)
    for template in matching(workload, target):
        config = template.default(workload, target)
        arrays = template.pack(workload, config, constants)
        weights = next(array for array in arrays if array.dtype in (np.int8, np.uint8))
        count = math.prod(workload.weight_shape)
        assert weights.nbytes == count // 2 if template.keeps_nibbles else weights.nbytes >= count


@pytest.mark.parametrize("template", TEMPLATES, ids=name_of)
def test_every_template_is_tested_here(template: Template) -> None:
    assert any(template is case[0] for case in CASES)


@pytest.mark.parametrize(("template", "workload", "target"), CASES, ids=name_of)
def test_configurations_are_legal_and_their_constants_as_described(
    template, workload, target
) -> None:
    """They also go through JSON, and have features."""
    space = template.space(workload, target)
    _, constants = random_case(workload, 0)
    sample = space.sample(np.random.default_rng(0), 5)
    configs = [default_of(template, workload, target), *sample]
    for config in configs:
        assert space.rejection(config) is None
        assert space.from_dict(space.to_dict(config)) == config
        arrays = template.pack(workload, config, constants)
        specs = template.packed(workload, config)
        assert [(a.shape, str(a.dtype)) for a in arrays] == [(s.shape, s.dtype) for s in specs]
        assert len({spec.name for spec in specs}) == len(specs)
        assert all(array.flags.c_contiguous for array in arrays)
    features = space.encode(configs)
    assert features.shape == (len(configs), len(space.feature_names))
    assert not np.isinf(features).any()  # what a value lacks is NaN


@pytest.mark.parametrize(("template", "workload", "targets"), GROUPS.values(), ids=name_of)
def test_stages_take_their_buffers_and_lower(template, workload, targets) -> None:
    """Each PrimFunc's host code takes what the plan will give it, in that order."""
    for target in distinct(template, workload, targets):
        check_stages(template, workload, target)


def check_stages(template: Template, workload: Workload, target: Target) -> None:
    program = program_of(template, workload, target)
    packed = template.packed(workload, default_of(template, workload, target))
    given = (*workload.inputs, *packed, *workload.outputs)
    specs = {spec.name: spec for spec in (*given, *(w.spec for w in program.workspaces))}
    for stage, found in zip(program.stages, lowered(template, workload, target), strict=True):
        buffers = [specs[name].stored for name in stage.parameters]
        taken = parameters(found)
        if target.kind == "cuda":  # a kernel gets an address: only sizes must agree
            buffers, taken = ([(math.prod(s), dtype) for s, dtype in x] for x in (buffers, taken))
        assert taken == buffers


def parameters(found: Lowered) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and dtypes of a PrimFunc's parameters, which its host code checks and names."""
    text = found.host.script()
    found = re.search(r"main\(((?:\w*: Tensor\(\[[\d, ]*\], \w+\)(?:, )?)+)\)", text)
    assert found is not None
    pairs = re.findall(r"Tensor\(\[([\d, ]*)\], (\w+)\)", found[1])
    return [
        (tuple(int(size) for size in shape.split(",") if size), dtype) for shape, dtype in pairs
    ]


@pytest.mark.parametrize("template", TEMPLATES, ids=name_of)
def test_building_is_pure(template: Template) -> None:
    _, workload, target = next(case for case in CASES if case[0] is template)
    one = program_of(template, workload, target)
    other = template.program(workload, template.default(workload, target), target)
    assert (len(one.stages), one.workspaces) == (len(other.stages), other.workspaces)
    for stage, again in zip(one.stages, other.stages, strict=True):
        assert (stage.reads, stage.writes) == (again.reads, again.writes)
        tvm.ir.assert_structural_equal(stage.function, again.function)


LAST = {name: group for (name, _, kind), group in GROUPS.items() if kind == "cuda"}


@needs_nvcc
@pytest.mark.parametrize(("template", "workload", "targets"), LAST.values(), ids=name_of)
def test_kernels_compile_with_the_headers_they_need(template, workload, targets) -> None:
    """Others would compile too, but for longer."""
    target = distinct(template, workload, targets)[-1]
    for found in lowered(template, workload, target):
        source = cuda_source(found, target)
        code, report, _ = run_nvcc(source, target.arch, needed_headers(source, target.arch))
        assert code == 0, report
