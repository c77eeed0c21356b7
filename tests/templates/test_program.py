"""Programs of several stages: what may be run, and parts under other names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm.script import tirx as T

from autoq.errors import BuildError
from autoq.kernel import compile_program
from autoq.measure.bench import POISON, CpuBench
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.epilogue.specification import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import (
    Initially,
    Program,
    Stage,
    Workspace,
    check_program,
)
from autoq.templates.registry import TEMPLATES, matching
from autoq.templates.target import host_cpu

X, WEIGHT, Y = (TensorSpec(name, (8,), "int32") for name in ("x", "weight", "y"))
SUMS = Workspace(TensorSpec("sums", (2, 4), "int32"))


@T.prim_func
def split(
    x: T.Buffer((8,), "int32"), weight: T.Buffer((8,), "int32"), sums: T.Buffer((2, 4), "int32")
):
    for i in range(8):
        sums[i // 4, i % 4] = x[i] * weight[i]


@T.prim_func
def join(sums: T.Buffer((2, 4), "int32"), y: T.Buffer((8,), "int32")):
    for i in range(8):
        y[i] = sums[i // 4, i % 4]


FIRST = Stage(split, ("x", "weight"), ("sums",))
SECOND = Stage(join, ("sums",), ("y",))
PROGRAM = Program((FIRST, SECOND), (SUMS,))


def check(program: Program, exact: bool = True) -> None:
    check_program(program, [X], [WEIGHT], [Y], exact)


def test_stages_over_a_workspace_are_a_program() -> None:
    check(PROGRAM)


WRONG = {
    "a workspace read before it is written": (
        Program((SECOND, FIRST), (SUMS,)),
        "stage 0 of the program: reads 'sums', which no stage before it writes",
    ),
    "an unknown buffer": (Program((FIRST, SECOND)), "stage 0 of the program: no buffer 'sums'"),
    "an input that is written": (
        Program((*PROGRAM.stages, Stage(join, ("sums",), ("x",))), (SUMS,)),
        "stage 2 of the program: writes 'x', which is given",
    ),
    "an output that nobody writes": (Program((FIRST,), (SUMS,)), "writes 'y'"),
    "a workspace that nobody writes": (
        Program(PROGRAM.stages, (SUMS, replace(SUMS, spec=replace(SUMS.spec, name="more")))),
        "writes 'more'",
    ),
    "two of one name": (Program(PROGRAM.stages, (SUMS, SUMS)), "called 'sums'"),
    "too few parameters": (
        Program((Stage(split, ("x",), ("sums",)), SECOND), (SUMS,)),
        "3 parameters for the buffers x, sums",
    ),
    "another dtype": (
        Program(PROGRAM.stages, (Workspace(TensorSpec("sums", (2, 4), "float32")),)),
        "takes int32[2, 4] for 'sums', which is float32[2, 4]",
    ),
    "another size": (
        Program(PROGRAM.stages, (Workspace(TensorSpec("sums", (2, 5), "int32")),)),
        "takes int32[2, 4] for 'sums', which is int32[2, 5]",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_run_is_one_line(case: str) -> None:
    program, line = WRONG[case]
    with pytest.raises(BuildError) as refused:
        check(program)
    assert line in str(refused.value)


def test_kernels_for_cuda_take_addresses() -> None:
    flat = Program(PROGRAM.stages, (Workspace(TensorSpec("sums", (8,), "int32")),))
    check(flat, exact=False)
    with pytest.raises(BuildError, match=r"is int32\[8\]"):
        check(flat)


@pytest.mark.parametrize("initially", [Initially.ZERO, Initially.STAYS_ZERO])
def test_a_workspace_of_zeros_may_be_read_at_once_and_updated_in_place(initially) -> None:
    update = Stage(split, ("x", "weight", "sums"), ("sums",))
    assert update.parameters == ("x", "weight", "sums")
    check(Program((update, SECOND), (replace(SUMS, initially=initially),)))
    with pytest.raises(BuildError, match="reads 'sums'"):
        check(Program((update, SECOND), (SUMS,)))


def test_a_program_becomes_a_part_of_another() -> None:
    """Two products one after the other: y = (x * weight) * more."""
    first = PROGRAM.renamed({"y": "between", "sums": "first.sums"})
    second = PROGRAM.renamed({"x": "between", "weight": "more", "sums": "second.sums"})
    between = Workspace(TensorSpec("between", (8,), "int32"))
    whole = Program(
        (*first.stages, *second.stages), (between, *first.workspaces, *second.workspaces)
    )
    check_program(whole, [X], [WEIGHT, TensorSpec("more", (8,), "int32")], [Y], exact=True)


def test_a_wrong_pack_is_one_line() -> None:
    template = next(t for t in TEMPLATES if t.name == "lookup_cpu")
    workload = Gemm(4, 8, 16)

    def packing(*arrays: np.ndarray) -> Template:
        spec = TensorSpec("weight", (4, 4), "int8")
        return replace(template, pack=lambda w, c, o: arrays, packed=lambda w, c: (spec,))

    right = np.zeros((4, 4), np.int8)
    assert packing(right).constants(workload, None, {}) == (right,)
    with pytest.raises(BuildError, match=r"^lookup_cpu: packs int8\[16\] instead of int8\[4, 4\]$"):
        packing(right.reshape(-1)).constants(workload, None, {})
    with pytest.raises(BuildError, match=r"packs nothing instead of int8\[4, 4\]"):
        packing().constants(workload, None, {})


@T.prim_func
def subtract(
    x: T.Buffer((4, 24), "int32"), more: T.Buffer((4, 24), "int32"), y: T.Buffer((4, 24), "int32")
):
    for i in range(4):
        for j in range(24):
            y[i, j] = x[i, j] - more[i, j]


def test_products_of_templates_are_parts_of_one_kernel() -> None:
    """y = x (v - w)^T in three stages: two products as their templates build them, and a third."""
    target = host_cpu()
    product = Gemm(4, 24, 32, epilogue=Epilogue("int32"))
    template = matching(product, target)[0]
    config = template.default(product, target)
    stages: list[Stage] = []
    constants: list[TensorSpec] = []
    for name in "vw":
        packed = template.packed(product, config)
        names = {spec.name: f"{name}.{spec.name}" for spec in (*packed, *product.outputs)}
        stages += template.program(product, config, target).renamed(names).stages
        constants += [replace(spec, name=names[spec.name]) for spec in packed]
    stages.append(Stage(subtract, ("v.y", "w.y"), ("y",)))
    sums = [Workspace(TensorSpec(name, (4, 24), "int32")) for name in ("v.y", "w.y")]
    program = Program(tuple(stages), tuple(sums))
    check_program(program, product.inputs, constants, product.outputs, exact=True)
    arrays = (*product.inputs, *constants, *product.outputs)
    kernel = compile_program(program, arrays, target)
    assert [call.module for call in kernel.calls] == [0, 0, 1], "equal stages share machine code"

    rng = np.random.default_rng(0)
    (x,), first = product.random_case(rng)
    _, second = product.random_case(rng)
    second["x_zero_point"] = first["x_zero_point"]
    expected = [product.reference((x,), given)[0] for given in (first, second)]
    packs = [template.constants(product, config, given) for given in (first, second)]
    difference = expected[0] - expected[1]
    loaded = CpuBench([x], [difference]).load(kernel, [*packs[0], *packs[1]])
    for poison in POISON:
        (y,) = loaded.run_over(poison)
        np.testing.assert_array_equal(y, difference)
