"""What is in a folder joins, and what cannot be imported is named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from autoq.errors import InputError
from autoq.measure.job import load_registry
from autoq.templates import operators
from autoq.templates.discovery import modules_of
from autoq.templates.operators.add import Add
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.registry import TEMPLATES, matching, templates_in
from autoq.templates.target import host_cpu, parse_target
from autoq.templates.workload import Workload


def test_every_module_of_the_folder_is_imported() -> None:
    found = {module.__name__ for module in modules_of("autoq.templates.operators")}
    folder = Path(operators.__file__).parent
    files = [path.relative_to(folder) for path in folder.rglob("*.py")]
    packages = {path.parent for path in files if path.name == "__init__.py"} - {Path()}
    modules = {path.with_suffix("") for path in files if path.name != "__init__.py"}
    assert found == {".".join(("autoq.templates.operators", *path.parts))
                     for path in modules | packages}  # fmt: skip
    assert Workload.OPERATORS["add"] is Add


def test_a_module_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "broken_operators"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "sound.py").touch()
    (folder / "torn.py").write_text("SIZE = 1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ImportError, match=r"broken_operators\.torn .*ZeroDivisionError"):
        modules_of("broken_operators")


def test_two_operators_of_one_name_are_refused() -> None:
    with pytest.raises(TypeError, match=r"two operators 'add': .*operators\.add\.Add and .*Other"):

        @dataclass(frozen=True)
        class Other(Workload, operator="add"):
            y_shape: tuple[int, ...] = (1,)
            operations: int = 0
            bytes: int = 0

    assert Workload.OPERATORS["add"] is Add


def _package(folder: Path, name: str, **modules: str) -> str:
    (folder / name).mkdir()
    for module, text in {"__init__": "", **modules}.items():
        (folder / name / f"{module}.py").write_text(text)
    return name


_TEMPLATE = """
from dataclasses import replace
from autoq.templates.cpu.movement.add import TEMPLATE as ADD
TEMPLATE = replace(ADD, name="{name}", preference={preference}, module=__name__)
"""


def test_a_package_adds_its_templates_to_those_of_autoq(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    sources = {
        "slow_add": _TEMPLATE.format(name="slow_add", preference=-1),
        "quick_add": _TEMPLATE.format(name="quick_add", preference=5),
        "helper": "TWO = 2\n",
    }
    registry = _package(tmp_path, "more_templates", **sources)
    found = load_registry(registry)
    assert found.keys() == {t.name for t in TEMPLATES} | {"slow_add", "quick_add"}
    matches = [t.name for t in matching(Add((4, 8)), host_cpu(), found.values())]
    assert matches == ["quick_add", "add_cpu", "slow_add"]


def test_a_template_joins_from_any_folder_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    package = _package(tmp_path, "nested_templates", a=_TEMPLATE.format(name="a", preference=1))
    _package(tmp_path / package, "family", b=_TEMPLATE.format(name="b", preference=2))
    _package(tmp_path / package / "family", "inner", c=_TEMPLATE.format(name="c", preference=0))
    assert [template.name for template in templates_in(package)] == ["b", "a", "c"]
    (tmp_path / package / "family" / "inner" / "torn.py").write_text("SIZE = 1 / 0\n")
    with pytest.raises(ImportError, match=r"nested_templates\.family\.inner\.torn cannot be"):
        templates_in(package)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (_TEMPLATE.format(name="add_cpu", preference=0), "two templates have the name 'add_cpu'"),
        (
            _TEMPLATE.format(name="b", preference=0).replace(", module=__name__", ""),
            r"module odd_\w+\.odd: its TEMPLATE says autoq\.templates\.cpu\.movement\.add",
        ),
        ("TEMPLATE = 3\n", r"module odd_\w+\.odd: TEMPLATE is a int"),
        ("import nothing_of_this_name\n", r"module odd_\w+\.odd cannot be imported"),
    ],
    ids=["name", "module", "type", "import"],
)
def test_a_folder_that_cannot_join_is_one_line(
    source: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    package = _package(tmp_path, f"odd_{abs(hash(source))}", odd=source)
    with pytest.raises(InputError, match=complaint):
        load_registry(package)


@pytest.mark.parametrize("folder", ["cuda", "cpu"])
def test_templates_of_a_folder_are_found_preferred_first(folder: str) -> None:
    found = templates_in(f"autoq.templates.{folder}")
    preferences = [template.preference for template in found]
    assert preferences == sorted(preferences, reverse=True)
    assert set(found) <= set(TEMPLATES)
    conv = Conv2d(8, 14, 14, 64, 64, 3, 3, padding=(1, 1, 1, 1))
    target = parse_target("cuda:sm_90a") if folder == "cuda" else host_cpu()
    matches = [template.preference for template in matching(conv, target, found)]
    assert len(matches) > 1 and len(set(matches)) == len(matches), "equal preferences"
