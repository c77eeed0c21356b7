"""The packages: all of them are installed, their imports lead downward, and none in a circle."""

from __future__ import annotations

import ast
import configparser
import functools
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = {"autoq": "autoq", "search": "autoq.search", "templates": "autoq.templates"}

MODULES = {
    ".".join([package, *path.relative_to(ROOT / folder).with_suffix("").parts]).removesuffix(
        ".__init__"
    ): path
    for folder, package in FLOORS.items()
    for path in sorted((ROOT / folder).rglob("*.py"))
}
"""The file of every module, by its name."""

DEVICE = "autoq.templates.cuda.device"
EPILOGUE = "autoq.templates.epilogue"
EMITTERS = {f"{EPILOGUE}.cuda", f"{EPILOGUE}.cpu"}
FAMILIES = {
    f"autoq.templates.{place}.{folder.name}"
    for place in ("cuda", "cpu")
    for folder in (ROOT / "templates" / place).iterdir()
    if (folder / "__init__.py").exists()
} - {DEVICE}
"""Packages of kernels that are made alike."""

PARTED = sorted({name.rpartition(".")[0] for name in MODULES} - {"", "autoq.templates"})
"""Packages whose parts have an order: in `templates`, emitters of epilogues lie beside kernels."""


def imported(tree: ast.AST) -> Iterator[str]:
    """Modules of autoq that a module imports when it runs, wherever the statement stands."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (part for part in parts if part in MODULES)
            if not all(part in MODULES for part in parts):
                yield node.module
        yield from imported(node)


@functools.cache
def imports() -> dict[str, set[str]]:
    """What every module imports."""
    return {name: set(imported(ast.parse(path.read_text()))) for name, path in MODULES.items()}


def within(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def part_of(module: str, package: str) -> str:
    """The package right below `package` that a module lies in, or the module that stands there."""
    return ".".join(module.split(".")[: package.count(".") + 2])


def crossings(source: str, *allowed: str) -> list[str]:
    """Imports from modules of a package that lead neither into it nor into what is allowed."""
    return [
        f"{module} imports {goal}"
        for module, goals in sorted(imports().items())
        if within(module, source)
        for goal in sorted(goals)
        if not any(within(goal, package) for package in (source, *allowed))
    ]


def leads_into(line: str, packages: set[str]) -> bool:
    """Whether what a line of `crossings` says is imported is in one of the packages."""
    return any(within(line.rpartition(" ")[2], package) for package in packages)


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Nodes of a circle in a graph; none where it has none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_setup_lists_every_folder_with_modules():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = setup["options"]["packages"].split()
    folders = {
        ".".join([package, *path.parent.relative_to(ROOT / folder).parts])
        for folder, package in {**FLOORS, "tuning_logs": "autoq.tuning_logs"}.items()
        for path in (ROOT / folder).rglob("*.py")
    }
    assert sorted(listed) == sorted(folders)


def test_every_package_has_its_own_module():
    assert [name for name in MODULES if name.rpartition(".")[0] not in {"", *MODULES}] == []


def test_no_module_imports_itself_however_indirectly():
    assert circle(imports()) == []


@pytest.mark.parametrize("package", PARTED)
def test_no_two_parts_of_a_package_need_each_other(package):
    parts: dict[str, set[str]] = {}
    for name, goals in imports().items():
        if within(name, package):
            source = part_of(name, package)
            needed = {part_of(goal, package) for goal in goals if within(goal, package)}
            parts.setdefault(source, set()).update(needed - {source})
    parts.pop(package)  # whose version alone is asked for, and whose functions load when used
    assert circle(parts) == []


def test_a_circle_is_found():
    assert sorted(set(circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}))) == ["b", "c"]


def test_the_search_knows_nothing_above_it():
    assert crossings("autoq.search", "autoq.errors") == []


def test_templates_know_the_search_space_alone():
    allowed = ("autoq.search.space", "autoq.search.lanes", "autoq.errors")
    assert crossings("autoq.templates", *allowed) == []


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_family_of_kernels_imports_no_other(family):
    others = FAMILIES - {family}
    assert [line for line in crossings(family) if leads_into(line, others)] == []


def test_the_device_knows_no_epilogue():
    assert [line for line in crossings(DEVICE) if leads_into(line, {EPILOGUE})] == []


def test_what_an_epilogue_means_reaches_no_emitter():
    reached, todo = set(), {name for name in MODULES if within(name, "autoq.templates.operators")}
    while todo:
        reached |= todo
        todo = {goal for module in todo for goal in imports()[module]} - reached
    assert {EPILOGUE, f"{EPILOGUE}.specification", f"{EPILOGUE}.reference"} <= reached
    assert [name for name in sorted(reached) if any(within(name, one) for one in EMITTERS)] == []


def test_what_families_share_imports_none_of_them():
    above = {"autoq.templates.registry", *FAMILIES}
    shared = [name for name in MODULES if within(name, "autoq.templates")]
    lines = [
        f"{module} imports {goal}"
        for module in shared
        if module != "autoq.templates" and not any(within(module, package) for package in above)
        for goal in sorted(imports()[module])
    ]
    assert lines and [line for line in lines if leads_into(line, above)] == []


GRAPH = "autoq.graph"
GRAPH_FLOORS = {"passes": (), "lowering": ("fallback",), "fallback": ()}
"""Packages of the graph, each with those of them that it may import besides the graph itself."""
GRAPH_FRONT = {GRAPH, f"{GRAPH}.optimise"}
"""What puts the packages of the graph in order."""


def leads_up(line: str, packages: set[str]) -> bool:
    """Whether a line of `crossings` leads into one of the packages, or to what orders them."""
    return leads_into(line, packages) or line.rpartition(" ")[2] in GRAPH_FRONT


def test_the_packages_of_the_graph_are_those_with_an_order():
    folders = {path.parent.name for path in (ROOT / "autoq" / "graph").glob("*/__init__.py")}
    assert folders == set(GRAPH_FLOORS)


def test_the_graph_itself_imports_none_of_its_packages():
    packages = {f"{GRAPH}.{name}" for name in GRAPH_FLOORS}
    itself = [
        name
        for name in MODULES
        if within(name, GRAPH)
        and name not in GRAPH_FRONT
        and not any(within(name, package) for package in packages)
    ]
    lines = [f"{name} imports {goal}" for name in itself for goal in sorted(imports()[name])]
    assert lines and [line for line in lines if leads_up(line, packages)] == []


@pytest.mark.parametrize("name", sorted(GRAPH_FLOORS))
def test_a_package_of_the_graph_imports_those_below_it(name):
    allowed = {f"{GRAPH}.{other}" for other in (name, *GRAPH_FLOORS[name])}
    others = {f"{GRAPH}.{other}" for other in GRAPH_FLOORS} - allowed
    lines = crossings(f"{GRAPH}.{name}")
    assert lines and [line for line in lines if leads_up(line, others)] == []
