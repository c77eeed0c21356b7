"""Rows of hardware: complete, in step with what architectures can do, and nowhere else."""

from __future__ import annotations

import ast
import dataclasses
import math
import operator
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import autoq
import autoq.templates
from autoq.templates.hardware import HARDWARE, MOST_SMEM_BYTES, Hardware, lacks
from autoq.templates.target import Target, parse_target

NAMES = [field.name for field in dataclasses.fields(Hardware)]
UNMEASURED = {"launch_seconds"}
"""Figures that no datasheet has."""


@pytest.mark.parametrize("arch", HARDWARE)
def test_rows_are_complete(arch: str) -> None:
    row, target = HARDWARE[arch], parse_target(f"cuda:{arch}")
    absent = {name for name in NAMES if not getattr(row, name)} - {"source"} - UNMEASURED
    assert {name for name in absent if not lacks(arch, name)} <= {"reserved_smem_bytes"}
    capability = target.compute_capability
    assert bool(row.reserved_smem_bytes) == (capability >= 80)
    assert bool(row.bfloat16_rate) == (capability >= 80)
    assert bool(row.e4m3_rate) == (capability >= 89)
    assert bool(row.int4_rate) == target.has_int4_mma
    assert bool(row.clustered_units) == (capability >= 90)
    assert row.sparse_factor == (2.0 if capability >= 80 else 1.0)
    assert row.unit_threads % 32 == 0 and row.thread_registers < 256


@pytest.mark.parametrize("arch", HARDWARE)
def test_a_target_is_its_row(arch: str) -> None:
    target = parse_target(f"cuda:{arch}")
    assert {name: getattr(target, name) for name in NAMES} == vars(HARDWARE[arch])
    assert hash(target) == hash(parse_target(f"cuda:{arch}"))


def test_shared_memory_of_multiprocessors_is_the_programming_guides() -> None:
    sizes = {arch: row.unit_smem_bytes >> 10 for arch, row in HARDWARE.items()}
    assert sizes == {"sm_75": 64, "sm_80": 164, "sm_86": 100, "sm_89": 100, "sm_90a": 228}
    assert MOST_SMEM_BYTES == 227 << 10


def test_clusters_fill_120_of_an_h200s_multiprocessors_and_the_same_share_of_others() -> None:
    row = HARDWARE["sm_90a"]
    assert [row.units_in_clusters(blocks) for blocks in (1, 2, 4, 8)] == [132, 132, 120, 120]
    for units in range(1, 145):
        assert row.of_units(units).units_in_clusters(4) == units * 10 // 11
    assert row.of_units(114).unit_smem_bytes == row.unit_smem_bytes


def test_rates_go_by_dtype_and_sparsity() -> None:
    hopper, ampere = parse_target("cuda:sm_90a"), parse_target("cuda:sm_80")
    assert ampere.rate("uint4") == ampere.int4_rate == 2 * ampere.rate("int8")
    assert hopper.rate("int4") == hopper.rate("uint8") == hopper.int8_rate
    assert hopper.rate("float16") == hopper.float16_rate
    assert hopper.rate("float8_e4m3fn") == hopper.e4m3_rate
    assert hopper.rate("int8", sparse=True) == 2 * hopper.int8_rate
    assert parse_target("cuda:sm_75").rate("int8", sparse=True) == 130e12
    assert ampere.rate("float8_e4m3fn") == 0.0 == hopper.rate("float64")


def test_a_roofline_that_needs_an_unknown_rate_is_unknown() -> None:
    target = Target("cuda", "sm_80", int8_rate=1e12, memory_rate=1e11)
    assert target.roofline_seconds({"int8": 10**12}, 10**9) == 1.0
    assert target.roofline_seconds({"int8": 10**12, "float32": 1}, 10**9) == 0.0
    assert target.roofline_seconds({"float32": 0}, 10**9) == 0.01
    assert Target("cuda", "sm_80", int8_rate=1e12).roofline_seconds({"int8": 1}, 1) == 0.0


# A constant that a cost model was fitted with says so in its name.
FORBIDDEN_NAME = re.compile(
    r"(?!.*(FITTED|NOMINAL)).*(REGISTER_FILE|RESERVED|SMEM_PER_UNIT|SMEM_LIMIT|MOST_REGISTERS"
    r"|MOST_THREADS|(?<!_A_)CLOCK$|L2_BYTES$|SCHEDULERS)"
)
OPERATORS = {ast.LShift: operator.lshift, ast.Mult: operator.mul, ast.Pow: operator.pow}


def telling(row: Hardware) -> set[float]:
    """Numbers of a row that are hardly anything else by chance, as powers of two are."""
    values = {getattr(row, name) for name in NAMES if type(getattr(row, name)) is not str}
    return {value for value in values | {row.unit_smem_bytes}
            if value == 132 or (value > 1 << 16 and math.frexp(value)[0] != 0.5)}  # fmt: skip


TELLING = frozenset().union(*map(telling, HARDWARE.values()))
REGISTER_FILE = HARDWARE["sm_90a"].register_file


def constants(tree: ast.Module) -> Iterator[tuple[str, float | None]]:
    """Names and values of the constants of a module: `NAME = 50 << 20` at its top level."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from ((name.id, folded(node.value)) for name in names if hasattr(name, "id"))


def folded(node: ast.expr) -> float | None:
    """The number that a literal or an operation on literals is."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = folded(node.left), folded(node.right)
        if left is not None and right is not None and abs(right) < 1 << 20:
            return OPERATORS[type(node.op)](left, right)
    return None


def hardware_constants(text: str, values: frozenset[float]) -> list[str]:
    """Names of a module's constants, and numbers anywhere in it, that belong into a row."""
    tree = ast.parse(text)
    fitted = {
        id(part)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and re.search("FITTED|NOMINAL", ast.unparse(node.targets[0]))
        for part in ast.walk(node)
    }
    named = [name for name, value in constants(tree) if value and FORBIDDEN_NAME.match(name)]
    numbers = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    found = [ast.unparse(node) for node in numbers
             if id(node) not in fitted and folded(node) in values]  # fmt: skip
    return named + found


@pytest.mark.parametrize(
    ("package", "values"), [(autoq.templates, TELLING | {REGISTER_FILE}), (autoq, TELLING)]
)
def test_nothing_else_defines_hardware(package: ModuleType, values: frozenset[float]) -> None:
    folder = Path(package.__file__).parent
    files = [path for path in folder.rglob("*.py") if path.name != "hardware.py"]
    assert len(files) > 40
    found = {path.name: hardware_constants(path.read_text(), values) for path in files}
    assert {name: constants for name, constants in found.items() if constants} == {}


@pytest.mark.parametrize(
    "text",
    ["_CLOCK = 1.5e9", "REGISTER_FILE = 1 << 10", "_LIMIT = 227 << 10", "SIZE = 65536",
     "def f():\n    return 132 * 4", "_FILE = 64 * 1024", "L2_BYTES = 5", "A = 60 << 20"],
)  # fmt: skip
def test_the_search_for_constants_finds_them(text: str) -> None:
    values = TELLING | {REGISTER_FILE}
    assert hardware_constants(text, values)
    fitted = "_FITTED_CLOCK = 1.755e9\n_L2_BYTES_A_CLOCK = 26.0\nx = 1 << 12"
    assert not hardware_constants(fitted, values)
