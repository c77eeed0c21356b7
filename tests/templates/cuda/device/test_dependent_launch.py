"""Kernels of sm_90a wait for their predecessors before they touch activations; others never."""

from __future__ import annotations

import re

import pytest

from autoq.kernel.host_launches import host_launches
from autoq.kernel.lowering import cuda_source, lower
from autoq.measure.arrays import random_case
from autoq.runtime.kernel import Launch, Scalar
from autoq.templates.base import Template
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.columns import gemm_columns_wgmma
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.add import Add
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.lookup import Lookup
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.registry import matching
from autoq.templates.sparse.sparsity import TILE_WISE, Sparsity
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Workload

HOPPER = parse_target("cuda:sm_90a")
OLDER = parse_target("cuda:sm_80")
WORKLOADS: list[Workload] = [
    Conv2d(2, 14, 14, 64, 64, 3, 3, padding=(1, 1, 1, 1)),
    Conv2d(
        2, 28, 28, 64, 128, 1, 1, in_dtype="uint8", epilogue=Epilogue("uint8", "uint8", True)
    ),
    Conv2d(1, 11, 11, 48, 48, 3, 3, padding=(1, 1, 1, 1), groups=48),
    Pool2d("max", 2, 15, 15, 32, 3, 3, (2, 2), (1, 1, 1, 1)),
    Add((2, 7, 7, 32)),
    Concat(49, (16, 24), ("int8", "uint8"), (False, True)),
    Quantize(2, 16, 16, 3, 16, 2),
    Dequantize(2, 7, 7, 24),
    Lookup((2, 7, 7, 24)),
]  # fmt: skip
HALF = Sparsity(TILE_WISE, 128, 2048, Structure(32768, 2048, 2048))
FEW = Sparsity(TILE_WISE, 128, 1024, Structure(8192, 1024, 1024))
"""Tiles of half and of a quarter of 4,096 columns and of k."""
CASES = [(template, workload) for workload in WORKLOADS for template in matching(workload, HOPPER)]
WAIT, START = "griddepcontrol_wait();", "griddepcontrol_launch_dependents();"


def case_id(case: object) -> str:
    return case.name if isinstance(case, Template) else str(case)


def compiled(template: Template, workload: Workload, target: Target) -> tuple[Launch, str, str]:
    """The launch, the kernel's parameter list and its body in CUDA."""
    function = template.build(workload, template.default(workload, target), target)
    lowered = lower(function, target)
    (launch,) = host_launches(lowered.host["main"], len(function.params))[0]
    source = cuda_source(lowered, target).rsplit('extern "C" __global__', 1)[1]
    signature, _, body = source.partition("{")
    return launch, signature, body


def activation_names(launch: Launch, signature: str, inputs: int, output: int) -> set[str]:
    """Names of the kernel's parameters that point at, or map, inputs or the output."""
    names = re.findall(r"(\w+)[,)]", signature[signature.index("main_kernel(") :])
    assert len(names) == len(launch.arguments)
    return {
        name
        for name, argument in zip(names, launch.arguments, strict=True)
        if not isinstance(argument, Scalar)
        and (argument.index < inputs or argument.index == output)
    }


@pytest.mark.parametrize(("template", "workload"), CASES, ids=case_id)
def test_waits_before_activations(template: Template, workload: Workload) -> None:
    launch, signature, body = compiled(template, workload, HOPPER)
    inputs = len(random_case(workload, 0)[0])
    output = max(argument.index for argument in launch.arguments)
    names = activation_names(launch, signature, inputs, output)
    assert launch.programmatic and len(names) > inputs
    before = re.sub(r".*prefetch_tensormap.*", "", body[: body.index(WAIT)])
    assert not names & set(re.findall(r"\w+", before))
    assert body.index(WAIT) < body.index(START)


@pytest.mark.parametrize(
    ("size", "tiles", "overlaps"),
    [(2048, None, True), (4096, None, False), (4096, HALF, False), (4096, FEW, True)],
    ids=["dense", "long", "long columns", "few columns"],
)
def test_long_products_do_not_overlap(size: int, tiles: Sparsity | None, overlaps: bool) -> None:
    workload = Gemm(size, size, size, sparsity=tiles)
    template = gemm_wgmma.TEMPLATE if tiles is None else gemm_columns_wgmma.TEMPLATE
    program = template.program(workload, template.default(workload, HOPPER), HOPPER)
    (stage,) = program.stages
    lowered = lower(stage.function, HOPPER)
    (launch,) = host_launches(lowered.host["main"], len(stage.function.params))[0]
    assert launch.programmatic is overlaps


@pytest.mark.parametrize(
    ("template", "workload"),
    [case for case in CASES if case[0].matches(case[1], OLDER)],
    ids=case_id,
)
def test_older_targets_do_not_overlap(template: Template, workload: Workload) -> None:
    launch, _, body = compiled(template, workload, OLDER)
    assert not launch.programmatic
    assert "griddepcontrol" not in body
