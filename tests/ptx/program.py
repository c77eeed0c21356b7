"""A kernel's PTX as the numbers that the interpreter runs."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ptx.text import Body, Statement, Variable, operands, type_bytes

SINK, NEGATED = -(1 << 31), 1 << 30
PARAMETER_BASE = 3 << 56
_AXES = {"x": 0, "y": 1, "z": 2}
_SPECIALS = {
    "%tid": 0, "%ntid": 1, "%ctaid": 2, "%nctaid": 3, "%laneid": 4, "%warpid": 5,
    "%cluster_ctarank": 6, "%clusterid": 7, "%cluster_nctarank": 8, "%cluster_ctaid": 9,
    "%nclusterid": 10, "%lanemask_eq": 13, "%lanemask_lt": 13, "%lanemask_le": 13,
    "%lanemask_gt": 13, "%lanemask_ge": 13, "%dynamic_smem_size": 14,
}  # fmt: skip
_SHARED_ADDRESS, _SHARED_GENERIC = 11, 12
_LANE_MASKS = ("eq", "lt", "le", "gt", "ge")
_ADDRESS = re.compile(r"\[\s*([^\]+]+?)\s*(?:\+\s*(-?\w+)\s*)?\]$")
_NUMBER = re.compile(r"-?(0x[0-9a-fA-F]+|0b[01]+|\d+)U?$")


class UnknownInstruction(Exception):
    """PTX that the emulator does not know."""


@dataclass
class Program:
    """What the interpreter takes: see `interpreter.cc`.

    statements: the text of the statement that each instruction comes from; offsets: where each
    parameter lies among the bytes of all; shared_bytes: of static arrays; variables: arrays in
    global and constant memory, which `slots` of the constants hold the addresses of.
    """

    code: np.ndarray
    operands: np.ndarray
    constants: np.ndarray
    specials: np.ndarray
    registers: int
    predicates: int
    shared_bytes: int
    local_bytes: int
    offsets: list[tuple[int, int]]
    statements: list[str]
    variables: list[Variable] = field(default_factory=list)
    slots: dict[str, int] = field(default_factory=dict)


class Assembler:
    """Registers, constants and instructions of a kernel while they are written."""

    def __init__(self, body: Body, handlers: dict[str, int]) -> None:
        self._body = body
        self._handlers = handlers
        self._types = dict(body.registers)
        self._slots: dict[str, int] = {}
        self._predicates: dict[str, int] = {}
        self._constants: dict[tuple[int, int], int] = {}
        self._words: list[np.ndarray] = []
        self._units = 0
        self._registers = 0
        self._specials: list[int] = []
        self._code: list[list[int]] = []
        self._operands: list[int] = []
        self._texts: list[str] = []
        self._branches: list[tuple[int, int]] = []
        self._statement: Statement | None = None
        self._stems = {stem: kind for stem, kind, _ in body.ranges}
        self._parameters = {item.name: item for item in body.parameters}
        self._places, self._shared_bytes = _places(body, "shared")
        self._locals, self._local_bytes = _places(body, "local")
        self._globals = {v.name: v for v in body.variables if v.space in ("global", "const")}
        self._global_slots: dict[str, int] = {}
        self._read: dict[tuple[str, int], int] = {}

    def assemble(self, decode: dict[str, object]) -> Program:
        """The program of every statement, each decoded by its first name."""
        starts = []
        for statement in self._body.statements:
            starts.append(len(self._code))
            self._statement = statement
            parts = statement.name.split(".")
            rule = decode.get(parts[0])
            if rule is None:
                raise UnknownInstruction(statement.text)
            try:
                rule(self, parts[1:], operands(statement.operands))
            except (KeyError, ValueError, IndexError) as error:
                raise UnknownInstruction(f"{statement.text}: {error!r}") from error
        starts.append(len(self._code))
        self.emit("exit", [])
        for place, target in self._branches:
            self._operands[place] = starts[target]
        return Program(
            code=np.array(self._code, np.int32),
            operands=np.array([*self._operands, 0], np.int64).astype(np.int32),
            constants=np.concatenate([*self._words, np.zeros(32, np.uint32)]),
            specials=np.array([*self._specials, 0], np.int32),
            registers=self._registers,
            predicates=len(self._predicates) + 1,
            shared_bytes=self._shared_bytes,
            local_bytes=self._local_bytes,
            offsets=[(item.offset, item.size) for item in self._body.parameters],
            statements=self._texts,
            variables=list(self._globals.values()),
            slots=self._global_slots,
        )

    def knows(self, handler: str) -> bool:
        """Whether the interpreter has an instruction."""
        return handler in self._handlers

    def emit(self, handler: str, operand: Sequence[int], *modifiers: int) -> None:
        """Write an instruction of the interpreter, under the predicate of the statement."""
        if handler not in self._handlers:
            raise ValueError(f"no instruction {handler!r}")
        statement = self._statement
        predicate = -1
        if statement is not None and statement.predicate is not None:
            predicate = self.predicate(statement.predicate, renamed=True)
        fields = [self._handlers[handler], predicate, len(self._operands), len(operand)]
        self._code.append([*fields, *modifiers, *[0] * (6 - len(modifiers))])
        self._operands.extend(operand)
        self._texts.append(statement.text if statement else "the end")

    def emit_branch(self, label: str) -> None:
        """Write a branch to a label."""
        self._branches.append((len(self._operands), self._body.target(label, self._scopes())))
        self.emit("bra", [0])

    def emit_branch_to_one(self, index: int, name: str) -> None:
        """Write a branch to one of a list of labels."""
        targets = self._body.targets(name, self._scopes())
        start = len(self._operands) + 1
        self._branches += [(start + i, target) for i, target in enumerate(targets)]
        self.emit("brx.idx", [index, *[0] * len(targets)])

    def _scopes(self) -> tuple[int, ...]:
        return self._statement.scopes if self._statement else (0,)

    def predicate(self, text: str, renamed: bool = False) -> int:
        """A predicate operand, which ! negates; a number is true or false."""
        if text == "_":
            return SINK
        if _NUMBER.match(text):
            return 0 if int(text, 0) else NEGATED
        negated, name = text.startswith("!"), text.lstrip("!")
        if not renamed and self._statement:
            name = self._statement.names.get(name, name)
        if self.kind(name) != "pred":
            raise ValueError(f"{name} is no predicate")
        number = self._predicates.setdefault(name, len(self._predicates) + 1)
        return number | NEGATED if negated else number

    def is_predicate(self, text: str) -> bool:
        """Whether an operand is one."""
        name = self._name(text.lstrip("!"))
        return text == "_" or (self._known(name) and self.kind(name) == "pred")

    def _name(self, text: str) -> str:
        return self._statement.names.get(text, text) if self._statement else text

    def _known(self, name: str) -> bool:
        return self._declared(name) is not None

    def kind(self, name: str) -> str:
        """The declared type of a register by its unique name."""
        found = self._declared(name)
        if found is None:
            raise ValueError(f"no register {name}")
        return found

    def _declared(self, name: str) -> str | None:
        found = self._types.get(name)
        return self._stems.get(name.rstrip("0123456789")) if found is None else found

    def bits(self, text: str) -> int:
        """Bits of a register, or 0 of what is none."""
        found = self._declared(self._name(text))
        return 0 if found is None else 8 * type_bytes(found)

    def register(self, text: str, bits: int) -> int:
        """A register or constant operand of so many bits; raises ValueError for other registers."""
        statement = self._statement
        name = statement.names.get(text, text) if statement else text
        found = self._read.get((name, bits))
        if found is None:
            found = self._read[name, bits] = self._operand(text, name, bits)
        return found

    def _operand(self, text: str, name: str, bits: int) -> int:
        if text == "_":
            return SINK
        if text.startswith("%") and text.split(".")[0] in _SPECIALS:
            return self._special(text, bits)
        kind = self._declared(name)
        if kind is not None:
            if 8 * type_bytes(kind) != bits:
                raise ValueError(f"{text} is not of {bits} bits")
            return self._slot(name, bits)
        if text in self._places:
            kind = _SHARED_GENERIC if bits == 64 else _SHARED_ADDRESS
            return self._special_slot(f"{text} {bits}", kind, self._places[text], bits)
        if text in self._locals:
            return self.constant(self._locals[text], bits)
        if text in self._parameters:
            return self.constant(self._parameters[text].offset, bits)
        if text in self._globals:
            slot = self.constant((1 << 62) + list(self._globals).index(text), 64)
            self._global_slots[text] = ~slot
            return slot
        return self.constant(_number(text, bits), bits)

    def _slot(self, name: str, bits: int) -> int:
        if name not in self._slots:
            self._slots[name] = self._registers
            self._registers += 2 if bits == 64 else 1
        return self._slots[name]

    def temporary(self, bits: int) -> int:
        """A register of the interpreter's own."""
        return self._slot(f"temporary {len(self._slots)}", bits)

    def _special(self, text: str, bits: int) -> int:
        name, _, axis = text.partition(".")
        argument = _AXES[axis] if axis else 0
        if name.startswith("%lanemask_"):
            argument = _LANE_MASKS.index(name.removeprefix("%lanemask_"))
        if bits == 16:
            bits = 32
        if bits != 32:
            raise ValueError(f"{text} is of 32 bits")
        return self._special_slot(text, _SPECIALS[name], argument, bits)

    def _special_slot(self, name: str, kind: int, argument: int, bits: int) -> int:
        if name not in self._slots:
            self._specials += [self._slot(name, bits), kind, argument]
        return self._slots[name]

    def constant(self, value: int, bits: int) -> int:
        """An operand that every lane reads a number from."""
        wide = 64 if bits == 64 else 32
        value &= (1 << bits) - 1
        if (value, wide) not in self._constants:
            self._constants[value, wide] = ~self._units
            kind = np.uint64 if wide == 64 else np.uint32
            self._words.append(np.full(32, value, kind).view(np.uint32))
            self._units += wide // 32
        return self._constants[value, wide]

    def address(self, text: str, bits: int | None = None) -> tuple[list[int], int]:
        """Base and offset of [base+offset], and the bits of the base."""
        found = _ADDRESS.match(text)
        if found is None:
            raise ValueError(f"no address: {text}")
        base, offset = found[1], int(found[2] or "0", 0)
        width = self.bits(base) or bits or (64 if base in self._globals else 32)
        return [self.register(base, width), offset], width


def _places(body: Body, space: str) -> tuple[dict[str, int], int]:
    """Where arrays of a memory begin, those of no known extent behind all others, and its size."""
    places: dict[str, int] = {}
    offset = 0
    found = [variable for variable in body.variables if variable.space == space]
    for variable in sorted(found, key=lambda item: item.count == 0):
        offset = -(-offset // variable.align) * variable.align
        places[variable.name] = offset
        # LLVM widens a load to what the alignment allows, behind the last element too.
        offset += -(-variable.size // 16) * 16
    return places, offset


def _number(text: str, bits: int) -> int:
    if text.startswith("0f"):
        if bits != 32:
            raise ValueError(f"{text} is of 32 bits")
        return int(text[2:], 16)
    if text.startswith("0d"):
        value = int(text[2:], 16)
        if bits == 64:
            return value
        return struct.unpack(
            "<I", struct.pack("<f", struct.unpack("<d", struct.pack("<Q", value))[0])
        )[0]
    if not _NUMBER.match(text):
        raise ValueError(f"no operand: {text}")
    return int(text.removesuffix("U"), 0)
