"""Writes docs/templates.md from the code: every template with what it computes, knobs and rules.

Values and rules are gathered over the layers of ResNet-50 and of grouped networks that the
benchmarks time, the small cases of every kind, and all targets. What the page says in words are
the first lines and the knobs of docstrings.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "cases"))
import grouped_cases
import resnet50_cases
import small_cases

from autoq.search.knobs import plain
from autoq.templates.base import Template
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import TEMPLATES
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Workload

PAGE = Path(__file__).parents[1] / "docs" / "templates.md"
TARGETS = {
    **{arch: parse_target(f"cuda:{arch}") for arch in ("sm_75", "sm_80", "sm_86", "sm_89")},
    "sm_90a": parse_target("cuda:sm_90a"),
    "x86-64 with AVX512-VNNI": Target(
        "cpu", "znver5", units=2, vnni=True, avx512=True, avx2=True, avx512vbmi=True
    ),
    "x86-64 with AVX2": Target("cpu", "haswell", units=2, avx2=True),
    "other CPUs": Target("cpu", "generic", units=2),
}
_MOST_VALUES = 12
# Fewer knobs or rules than this are written out again rather than referred to.
_WORTH_A_REFERENCE = 3

INTRODUCTION = """\
# Templates, knobs and rules

`python scripts/list_templates.py` writes this page from the code; edit the docstrings it quotes,
not the page. [templates/README.md](../templates/README.md) is the manual.

Templates stand in their order of preference: a layer that has no record takes the first that
matches. The values of a knob are those over all layers of ResNet-50 at batch 1, 8 and 128, the
grouped layers of `scripts/cases/grouped_cases.py` and the small cases of
`scripts/cases/small_cases.py`; the space of a single layer has fewer. A configuration is legal when
every rule holds, and a rejected one is told the first that does not.
"""


@dataclass
class Entry:
    """What the spaces of one template hold, over all cases that it matches."""

    template: Template
    targets: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    values: dict[str, list[Any]] = field(default_factory=dict)
    config_type: type = object
    rules: dict[str, str] = field(default_factory=dict)

    def add(self, target_name: str, target: Target, workload: Workload) -> None:
        """Take in the space of a workload that the template matches on a target."""
        _include(self.targets, [target_name])
        _include(self.kinds, [type(workload).__name__])
        space = self.template.space(workload, target)
        self.config_type = space.config_type
        for name, values in space.knobs.items():
            _include(self.values.setdefault(name, []), values)
        for rule in space.constraints:
            self.rules[getattr(rule, "__name__", "")] = first_paragraph(rule)

    @property
    def knobs(self) -> dict[str, tuple[str, str]]:
        """Values and meaning of each knob, as text."""
        meanings = knob_meanings(self.config_type)
        return {name: (_values(v), meanings.get(name, "")) for name, v in self.values.items()}


def cases() -> list[Workload]:
    """The layers whose spaces are shown."""
    layers = [w for n in (1, 8, 128) for w in resnet50_cases.convolutions(n)]
    layers += [w for n in (8, 128) for w in grouped_cases.convolutions(n)]
    return [*layers, *small_cases.CASES, Gemm(7, 33, 66, "uint4", "int4")]


def entries(templates: Sequence[Template], workloads: Sequence[Workload]) -> list[Entry]:
    """An entry for every template, in order."""
    found = [Entry(template) for template in templates]
    for entry in found:
        for name, target in TARGETS.items():
            for workload in workloads:
                if entry.template.matches(workload, target):
                    entry.add(name, target, workload)
    return found


def first_paragraph(thing: object) -> str:
    """The first paragraph of a docstring as one line, "" without one."""
    text = inspect.getdoc(thing) or ""
    return " ".join(text.split("\n\n")[0].split())


def knob_meanings(config_type: type) -> dict[str, str]:
    """What `knob: words` lines in the docstrings of a config and its bases say of each knob."""
    meanings: dict[str, str] = {}
    for base in reversed(config_type.__mro__):
        text = inspect.cleandoc(base.__dict__.get("__doc__") or "")
        for name, words in re.findall(r"(?m)^(\w+): (.*(?:\n[ ]+.*)*)", text):
            meanings[name] = " ".join(words.split()).rstrip(".")
    return meanings


def page(found: Sequence[Entry]) -> str:
    """The whole page."""
    return "\n".join(
        [INTRODUCTION, *_overview(found), *(_section(i, found) for i in range(len(found)))]
    )


def _overview(found: Sequence[Entry]) -> list[str]:
    lines = ["| template | workloads | targets | tuned |", "| --- | --- | --- | --- |"]
    for entry in found:
        name, tuned = entry.template.name, "yes" if entry.template.tunable else "no"
        row = (f"[`{name}`](#{name})", _and(entry.kinds), _targets(entry.targets), tuned)
        lines.append(f"| {' | '.join(row)} |")
    return [*lines, ""]


def _section(index: int, found: Sequence[Entry]) -> str:
    entry, before = found[index], found[:index]
    template = entry.template
    about = first_paragraph(_module(template)).removeprefix(f"Template {template.name}: ")
    layouts = " and ".join(sorted(template.layouts))
    takes = f"Activations in {layouts}. " if len(template.layouts) > 1 else ""
    lines = [f"## {template.name}", "", _sentence(about), "", f"Version {template.version}. "]
    lines[-1] += f"It takes {_and(entry.kinds)} on {_targets(entry.targets)}. {takes}"
    lines[-1] += " ".join((inspect.getdoc(template.computes) or "").split())
    if not template.tunable:
        knobs = _and([f"`{name}`" for name in entry.values])
        return "\n".join([*lines, "", f"It is not tuned: its default chooses {knobs}.", ""])
    return "\n".join([*lines, "", *_knob_lines(entry, before), *_rule_lines(entry, before)])


def _module(template: Template) -> object:
    """The module that defines a template."""
    modules = [m for name, m in sys.modules.items() if name.startswith("autoq.templates.")]
    return next(module for module in modules if getattr(module, "TEMPLATE", None) is template)


def _knob_lines(entry: Entry, before: Sequence[Entry]) -> list[str]:
    knobs = entry.knobs
    source, same = _most_alike(knobs, {other.template.name: other.knobs for other in before})
    rows = [
        f"| `{name}` | {values} | {meaning} |"
        for name, (values, meaning) in knobs.items()
        if name not in same
    ]
    lines = ["| knob | values | meaning |", "| --- | --- | --- |", *rows, ""] if rows else []
    if same:
        other = "Its other knobs are" if rows else "Its knobs are"
        lines += [f"{other} those of `{source}`: {_and([f'`{name}`' for name in same])}.", ""]
    return lines


def _rule_lines(entry: Entry, before: Sequence[Entry]) -> list[str]:
    theirs = {other.template.name: other.rules for other in before}
    source, same = _most_alike(entry.rules, theirs)
    rules = entry.rules.items()
    own = [f"- `{name}`: {_sentence(says)}" for name, says in rules if name not in same]
    lines = []
    if same:
        lines = [f"{_which_hold(source, same, theirs[source])}{', and' if own else '.'}", ""]
    return [*lines, *own, *([""] if own else [])]


def _which_hold(source: str, same: Sequence[str], theirs: Collection[str]) -> str:
    """Which of another template's rules are the same, or which are not where these are fewer."""
    other = [name for name in theirs if name not in same]
    if len(other) >= len(same):
        return f"Of the rules of `{source}` these hold: {_and([f'`{name}`' for name in same])}"
    but = f" but {_and([f'`{name}`' for name in other])}" if other else ""
    return f"All rules of `{source}`{but} hold"


def _most_alike(own: dict[str, Any], others: dict[str, Any]) -> tuple[str, list[str]]:
    """The first earlier template that has most of these the same, and which; "" for too few."""
    best, name = [], ""
    for other, theirs in others.items():
        same = [key for key in own if key in theirs and theirs[key] == own[key]]
        if len(same) > len(best):
            best, name = same, other
    return (name, best) if len(best) >= _WORTH_A_REFERENCE else ("", [])


def _values(values: Sequence[Any]) -> str:
    if len(values) == 1 and len(str(values[0])) < 30:
        return _value(values[0])
    ordered = sorted(values, key=_place)
    if len(ordered) <= _MOST_VALUES:
        return ", ".join(map(_value, ordered))
    if isinstance(ordered[0], int):
        return f"{len(ordered)} from {ordered[0]} to {ordered[-1]}"
    some = ordered[:: (len(ordered) - 1) // 2][:3]
    return f"{len(ordered)}, such as {', '.join(map(_value, some))}"


def _place(value: Any) -> tuple[Any, ...]:
    """Sorts values: those of a kind beside each other, numbers by size."""
    if is_dataclass(value):
        return str(type(value)), *(_place(getattr(value, part.name)) for part in fields(value))
    return str(type(value)), plain(value) if isinstance(value, Enum) else value


def _value(value: Any) -> str:
    if is_dataclass(value):
        return f"({', '.join(f'{name} {_value(part)}' for name, part in plain(value).items())})"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{value}`" if isinstance(value, str) and value else str(value) or '""'


def _sentence(text: str) -> str:
    """With a capital letter, unless it begins with a name, and a full stop."""
    named = not text.split(" ")[0].rstrip("s").isalpha()
    return (text if named else text[0].upper() + text[1:]).rstrip(".") + "."


def _targets(names: Sequence[str]) -> str:
    """Names of targets, or "every GPU" and "every CPU" for all of a kind."""
    left = list(names)
    for kind, every in (("cuda", "every GPU"), ("cpu", "every CPU")):
        whole = [name for name, target in TARGETS.items() if target.kind == kind]
        if set(whole) <= set(left):
            left = [every, *(name for name in left if name not in whole)]
    return _and(left)


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def _include(values: list[Any], more: Iterable[Any]) -> None:
    values += [value for value in more if value not in values]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=PAGE)
    options = parser.parse_args()
    options.output.write_text(page(entries(TEMPLATES, cases())))


if __name__ == "__main__":
    main()
