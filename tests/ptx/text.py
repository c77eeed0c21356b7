"""PTX text as declarations and instructions, scopes undone."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PIECE = re.compile(
    r"\s*(?:(?P<label>[$%\w]+)\s*:(?!:)|(?P<open>\{)|(?P<close>\})|(?P<statement>[^;{}]*?"
    r"(?:\{[^{}]*\}[^;{}]*?)*);)",
    re.DOTALL,
)
_ENTRY = re.compile(r"\.entry\s+(\w+)\s*\((.*?)\)([^{]*)\{", re.DOTALL)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+(?P<name>\w+)"
    r"(?:\[(?P<count>\d+)\])?"
)
_VARIABLE = re.compile(
    r"\.(?P<space>shared|global|const|local)\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+"
    r"(?P<name>[$\w]+)(?:\[(?P<count>\d*)\])?(?:\s*=\s*(?P<value>.*))?$",
    re.DOTALL,
)
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.DOTALL)
_INSTRUCTION = re.compile(
    r"(?:@(?P<not>!?)(?P<predicate>[%\w]+)\s+)?(?P<name>[a-z][\w.:]*)\s*(?P<operands>.*)", re.DOTALL
)
TYPE_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}


@functools.cache
def type_bytes(name: str) -> int:
    """Bytes of a value of a type such as `u32`."""
    return TYPE_BYTES[name.lstrip("busf")]


@dataclass(frozen=True)
class Parameter:
    """A kernel's parameter: its name, and where it lies among all of them."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class Variable:
    """An array in shared, local, constant or global memory; value is the text of its content."""

    space: str
    name: str
    align: int
    element_bytes: int
    count: int
    value: str | None

    @property
    def size(self) -> int:
        """Bytes; none for an array whose extent a launch gives."""
        return self.element_bytes * self.count


@dataclass(frozen=True)
class Statement:
    """An instruction: its predicate, name and operands.

    predicate begins with ! where it is negated; names: unique names of registers that a scope of
    its own declares; scopes: the numbers of those around it, the innermost last.
    """

    predicate: str | None
    name: str
    operands: str
    text: str
    names: dict[str, str]
    scopes: tuple[int, ...]


@dataclass
class Body:
    """A kernel: what it declares, its statements, and which of them each label stands before.

    registers: types by unique name; ranges: stem, type and number of registers declared at once;
    labels: by name and scope; lists: names of labels that a brx.idx chooses from, likewise.
    """

    parameters: list[Parameter] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)
    ranges: list[tuple[str, str, int]] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    labels: dict[tuple[str, int], int] = field(default_factory=dict)
    lists: dict[tuple[str, int], list[str]] = field(default_factory=dict)

    def target(self, name: str, scopes: tuple[int, ...]) -> int:
        """The statement that a label of the innermost scope stands before."""
        for scope in reversed(scopes):
            if (name, scope) in self.labels:
                return self.labels[name, scope]
        raise ValueError(f"no label {name!r}")

    def targets(self, name: str, scopes: tuple[int, ...]) -> list[int]:
        """The statements of a list of labels."""
        for scope in reversed(scopes):
            if (name, scope) in self.lists:
                return [self.target(label, scopes) for label in self.lists[name, scope]]
        raise ValueError(f"no list of labels {name!r}")


def read(ptx: str, symbol: str) -> Body:
    """The kernel of a name in a module; raises ValueError for what cannot be read."""
    text = _COMMENT.sub("", ptx)
    found = next((entry for entry in _ENTRY.finditer(text) if entry[1] == symbol), None)
    if found is None:
        raise ValueError(f"the PTX has no kernel {symbol!r}")
    body = Body()
    offset = 0
    for parameter in _PARAMETER.finditer(found[2]):
        size = type_bytes(parameter["type"]) * int(parameter["count"] or 1)
        align = int(parameter["align"] or type_bytes(parameter["type"]))
        offset = -(-offset // align) * align
        body.parameters.append(Parameter(parameter["name"], offset, size))
        offset += size
    for line in text[: found.start()].split(";"):
        variable = _variable(line.strip().split("\n")[-1].strip())
        if variable:
            body.variables.append(variable)
    _read_body(text, found.end(), body)
    return body


def _variable(statement: str) -> Variable | None:
    found = _VARIABLE.search(statement)
    if found is None:
        return None
    count = 1 if found["count"] is None else int(found["count"] or 0)
    width = type_bytes(found["type"])
    align = int(found["align"] or width)
    return Variable(found["space"], found["name"], align, width, count, found["value"])


def _read_body(text: str, position: int, body: Body) -> None:
    scopes: list[int] = [0]
    names: list[dict[str, str]] = [{}]
    opened = 0
    label = ""
    while scopes:
        piece = _PIECE.match(text, position)
        if piece is None:
            raise ValueError(f"PTX that cannot be read: {text[position : position + 80]!r}")
        position = piece.end()
        kind = piece.lastgroup
        if kind == "open":
            opened += 1
            scopes.append(opened)
            names.append(names[-1])
        elif kind == "close":
            scopes.pop()
            names.pop()
        elif kind == "label":
            label = piece["label"]
            body.labels[label, scopes[-1]] = len(body.statements)
        else:
            statement = piece["statement"].strip()
            if statement.startswith(".branchtargets"):
                listed = statement.removeprefix(".branchtargets").split(",")
                body.lists[label, scopes[-1]] = [item.strip() for item in listed]
            elif statement.startswith("."):
                names[-1] = _declaration(statement, body, names[-1], scopes[-1])
            elif statement:
                body.statements.append(_instruction(statement, names[-1], tuple(scopes)))


def _declaration(text: str, body: Body, names: dict[str, str], scope: int) -> dict[str, str]:
    """The unique names of registers behind a declaration, which statements before it keep."""
    if text.startswith(".reg"):
        return _declared(text, body, names, scope)
    if text.startswith((".shared", ".local", ".const", ".global")):
        variable = _variable(text)
        if variable is None:
            raise ValueError(f"a declaration that cannot be read: {text}")
        body.variables.append(variable)
    elif not text.startswith((".pragma", ".loc", ".file")):
        raise ValueError(f"an instruction that cannot be read: {text}")
    return names


def _instruction(text: str, names: dict[str, str], scopes: tuple[int, ...]) -> Statement:
    found = _INSTRUCTION.match(text)
    if found is None:
        raise ValueError(f"an instruction that cannot be read: {text}")
    negated, predicate, name, given = found.groups()
    if predicate:
        predicate = negated + names.get(predicate, predicate)
    return Statement(predicate, name, given, text, names, scopes)


def _declared(text: str, body: Body, names: dict[str, str], scope: int) -> dict[str, str]:
    names = dict(names)
    found = _REGISTERS.match(text)
    if found is None:
        raise ValueError(f"a declaration that cannot be read: {text}")
    for name in (item.strip() for item in found[2].split(",")):
        if "<" in name:
            stem, count = name.rstrip(">").split("<")
            body.ranges.append((stem, found[1], int(count)))
        else:
            names[name] = f"{name}#{scope}"
            body.registers[names[name]] = found[1]
    return names


def operands(text: str) -> list[str]:
    """The operands of an instruction, commas inside braces and brackets left alone."""
    if "{" not in text and "[" not in text:
        return [item.strip() for item in text.split(",")] if text else []
    return list(_grouped(text))


def _grouped(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for place, character in enumerate(text):
        if character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    if text[start:].strip():
        yield text[start:].strip()
