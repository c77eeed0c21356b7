"""`--registry`: operators and templates of a package of the user's own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autoq.measure.job import load_registry
from autoq.records import Device, Record
from autoq.templates.workload import Workload

_TEMPLATE = """
from dataclasses import replace

from autoq.templates.cpu.conv import conv2d_direct

TEMPLATE = replace(
    conv2d_direct.TEMPLATE, name="{name}_conv2d", preference=99, module=__name__
)
"""
_OPERATOR = """
from dataclasses import dataclass

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class Negate(Workload, operator="{name}_negate"):
    n: int

    inputs = property(lambda self: (TensorSpec("x", (self.n,), "int8"),))
    outputs = property(lambda self: (TensorSpec("y", (self.n,), "int8"),))
    operations = property(lambda self: self.n)

    def reference(self, activations, constants):
        return (-activations[0],)

    def random_case(self, rng):
        return (rng.integers(-128, 128, self.n).astype("int8"),), {{}}
"""


@pytest.fixture
def package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a package with a template and an operator, which is not imported yet."""
    name = f"registry_{folder.name}"
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("")
    (folder / name / "conv.py").write_text(_TEMPLATE.format(name=name))
    (folder / name / "negate.py").write_text(_OPERATOR.format(name=name))
    monkeypatch.syspath_prepend(folder)
    return name


def test_compile_and_tune_take_templates_of_a_package(autoq, model, package):
    screen = autoq("compile", model, "--target", "cpu", "-o", "net.tar", "--registry", package)
    assert screen.code == 0 and f"{package}_conv2d" in screen.out, screen
    screen = autoq("compile", model, "--target", "cpu", "-o", "net.tar")
    assert screen.code == 0 and package not in screen.out, screen
    listing = ("tune", model, "--target", "cpu", "--tasks", "list", "--registry", package)
    assert autoq(*listing).code == 0
    tuning = ("tune", model, "--target", "cpu", "-o", "new.jsonl", "--trials", "2", "--tuner")
    screen = autoq(*tuning, "random", "--registry", f"{package}.conv:TEMPLATES")
    assert screen.is_one_line(f"{package}.conv:TEMPLATES", "TEMPLATES")


def test_logs_read_records_of_a_package(autoq, folder, package):
    load_registry(package)
    negate = Workload.OPERATORS.pop(f"{package}_negate")
    device = Device("Replay", "generic")
    record = Record(negate(8), "t", 1, {}, device, "2026-11-20T12:00:00Z", seconds=1e-6)
    (folder / "log.jsonl").write_text(record.to_line() + "\n")
    for module in [name for name in sys.modules if name.startswith(package)]:
        del sys.modules[module]
    assert autoq("logs", "check", "log.jsonl").code == 2
    screen = autoq("logs", "check", "log.jsonl", "--registry", package)
    assert screen.code == 0 and "sound, 1 records" in screen.out, screen
    for verb in ("list", "best"):
        assert autoq("logs", verb, "log.jsonl", "--registry", package).code == 0
    merge = ("logs", "merge", "log.jsonl", "-o", "all.jsonl", "--registry", package)
    assert autoq(*merge).out == "wrote 1 records to all.jsonl\n"
    export = ("logs", "export", "log.jsonl", "-o", "all.csv", "--registry", package)
    assert autoq(*export).code == 0


BAD = {
    "no module": ("absent_package", "No module named 'absent_package'"),
    "no attribute": ("autoq.templates:NOTHING", "'NOTHING'"),
    "no package": ("json.decoder", "is no package", "json.decoder:TEMPLATES"),
    "no templates": ("autoq.cli.tune:TUNERS", "no Template"),
    "no sequence": ("autoq.templates.arrays.layout:shape_in", "not iterable"),
    "nothing": ("", "template registry ''"),
}


@pytest.mark.parametrize("verb", ["tune", "compile"])
@pytest.mark.parametrize("case", BAD)
def test_what_is_no_registry_is_refused(refuses, model, verb, case):
    registry, *words = BAD[case]
    arguments = ("--target", "cpu", "-o", "new", "--registry", registry)
    refuses(verb, model, *arguments, words=("template registry", *words))


def test_a_package_that_raises_is_refused(refuses, model, folder, monkeypatch):
    (folder / "broken_package.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    arguments = ("--target", "cpu", "-o", "new", "--registry", "broken_package")
    refuses("compile", model, *arguments, words=("broken_package", "division by zero"))
