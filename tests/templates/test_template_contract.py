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
from workloads.contract import BLOCKED, FOUR_BIT, OF_ALL, WORKLOADS

from autoq.kernel.lowering import Lowered, lower
from autoq.measure.arrays import random_case
from autoq.search.search_space import ESTIMATE
from autoq.templates.base import Template
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.program import Program
from autoq.templates.registry import TEMPLATES, matching
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Workload

CUDA = [parse_target(f"cuda:{arch}") for arch in ("sm_75", "sm_80", "sm_89", "sm_90a")]
CPU = [
    Target("cpu", "znver5", units=2, vnni=True, avx512=True, avx2=True),
    Target("cpu", "haswell", units=2, avx2=True),
]
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
    if isinstance(case, list | tuple):
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


def test_every_template_is_tested_here() -> None:
    assert {template.name for template in TEMPLATES} == {case[0].name for case in CASES}


# Of the targets of a kind that a template has for a workload, one that takes its turn.
IN_TURNS = [
    (template, workload, targets[number % len(targets)])
    for number, (template, workload, targets) in enumerate(GROUPS.values())
]


@pytest.mark.parametrize(("template", "workload", "target"), IN_TURNS, ids=name_of)
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
    # Searches, recordings and models ask for a template's estimate by this name, in seconds.
    assert not {"estimate", "estimated_seconds"} & set(space.feature_names)
    if ESTIMATE in space.feature_names:
        estimates = features[:, space.feature_names.index(ESTIMATE)]
        assert ((estimates > 1e-7) & (estimates < 10)).all()


def few_of_cuda() -> list[tuple[Template, Workload, list[Target]]]:
    """All groups of CPUs; of each CUDA template the first one and the last.

    CUDA kernels get addresses, and the emulator checks each access against the buffers' sizes.
    """
    groups: dict[tuple[str, str], list[tuple[Template, Workload, list[Target]]]] = {}
    for (name, _, kind), group in GROUPS.items():
        groups.setdefault((name, kind), []).append(group)
    kept = []
    for (_, kind), found in groups.items():
        places = {0, len(found) - 1} if kind == "cuda" else range(len(found))
        kept += [found[place] for place in sorted(places)]
    return kept


@pytest.mark.parametrize(("number", "group"), list(enumerate(few_of_cuda())), ids=name_of)
def test_stages_take_their_buffers_and_lower(number, group) -> None:
    """Each PrimFunc's host code takes what the plan will give it, in that order.

    Of the targets whose defaults differ, one that takes its turn.
    """
    template, workload, targets = group
    found = distinct(template, workload, targets)
    check_stages(template, workload, found[number % len(found)])


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
