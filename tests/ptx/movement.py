"""Memory, matrices, warps and control: from PTX names to the interpreter's."""

from __future__ import annotations

import re

from ptx.arithmetic import Rule, bits_of, unsigned
from ptx.program import PARAMETER_BASE, Assembler

_SPACES = {
    "global": 1, "const": 1, "shared": 2, "shared::cta": 2, "local": 3, "param": 4,
    "shared::cluster": 5,
}  # fmt: skip
# How long caches keep a line, and the order among threads, of which the emulator has one.
_IGNORED = re.compile(
    r"nc|ca|cg|cs|lu|cv|wb|wt|weak|relaxed|acquire|release|acq_rel|volatile|cta|cluster|gpu|sys|"
    r"L[12]::\w+|"
)
ELEMENTS = ("s4", "u4", "s8", "u8", "f16", "bf16", "e4m3", "tf32")
_ACCUMULATORS = ("s32", "f32", "f16")
_SHUFFLES = ("idx", "up", "down", "bfly")
_ATOMICS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
_VOTES = ("all", "any", "uni", "ballot")


def _nothing(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    asm.emit("nop", [])


def elements(operand: str) -> list[str]:
    """The operands inside braces, or the one without them."""
    return [item.strip() for item in operand.strip("{}").split(",")]


def _memory(parts: list[str]) -> tuple[int, int, str]:
    """Space, vector length and type of a load or store; raises ValueError for other words."""
    space, count = 0, 1
    for part in parts[:-1]:
        if part in _SPACES:
            space = _SPACES[part]
        elif part in ("v2", "v4", "v8"):
            count = int(part[1:])
        elif not _IGNORED.fullmatch(part):
            raise ValueError(f".{part} is not known here")
    return space, count, parts[-1]


def _load(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    space, count, kind = _memory(parts)
    registers = elements(ops[0])
    if len(registers) != count:
        raise ValueError("the vector has another length")
    width = asm.bits(next((item for item in registers if item != "_"), "_"))
    base, base_bits = asm.address(ops[1])
    taken = [asm.register(item, width) for item in registers]
    signed = int(kind.startswith("s"))
    modifiers = (space, count, signed, width, base_bits)
    asm.emit(f"ld.{bits_of(kind)}", [*taken, *base], *modifiers)


def store(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    space, count, kind = _memory(parts)
    values = elements(ops[1])
    if len(values) != count:
        raise ValueError("the vector has another length")
    width = asm.bits(next((item for item in values if asm.bits(item)), "")) or max(
        bits_of(kind), 32
    )
    base, base_bits = asm.address(ops[0])
    taken = [asm.register(item, width) for item in values]
    asm.emit(f"st.{bits_of(kind)}", [*base, *taken], space, count, width, base_bits)


def _change(asm: Assembler, parts: list[str], ops: list[str], returns: bool = True) -> None:
    """atom, which gives the value before, and red, which does not."""
    kind = parts[-1]
    operation = next(part for part in parts if part in _ATOMICS)
    rest = [part for part in parts[:-1] if part != operation]
    space, count, _ = _memory([*rest, kind])
    if count != 1:
        raise ValueError("atomic operations over vectors are not known here")
    result, *ops = ops if returns else ["_", *ops]
    bits = bits_of(kind)
    base, base_bits = asm.address(ops[0])
    taken = [asm.register(result, bits), *base, *(asm.register(op, bits) for op in ops[1:])]
    modifiers = (_ATOMICS.index(operation), space, base_bits, int(len(ops) > 2))
    asm.emit(f"atom.{unsigned(kind) if kind[0] == 'b' else kind}", taken, *modifiers)


def _reduce_memory(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    _change(asm, parts, ops, returns=False)


def _convert_address(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    *way, space, kind = parts
    bits = bits_of(kind)
    taken = [asm.register(op, bits) for op in ops]
    if space == "global":
        return asm.emit(f"mov.u{bits}", taken)
    if space == "param":
        return asm.emit("add.u64", [*taken, asm.constant(PARAMETER_BASE, 64)])
    return asm.emit(".".join(["cvta", *way, space.split("::")[0]]), taken)


def copy(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    """cp.async of threads."""
    if parts[1] == "commit_group":
        return asm.emit("cp.async.commit_group", [])
    if parts[1] in ("wait_all", "wait_group"):
        return asm.emit("cp.async.wait", [], int(ops[0]) if parts[1] == "wait_group" else -1)
    if parts[1:4] == ["mbarrier", "arrive", "noinc"]:
        return asm.emit("cp.async.mbarrier.arrive", asm.address(ops[0])[0])
    if parts[1] not in ("ca", "cg") or parts[2:4] not in (
        ["shared", "global"],
        ["shared::cta", "global"],
    ):
        raise ValueError("this cp.async is not known here")
    to, to_bits = asm.address(ops[0])
    source, source_bits = asm.address(ops[1])
    if "L2::cache_hint" in parts:
        ops = ops[:-1]
    read = [asm.register(ops[3], 32)] if len(ops) > 3 else []
    asm.emit("cp.async", [*to, *source, *read], int(ops[2]), to_bits, source_bits, len(read))


def _policy(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    """A cache policy changes no value."""
    asm.emit("mov.u64", [asm.register(ops[0], 64), asm.constant(0, 64)])


def _matrices(name: str) -> Rule:
    def rule(asm: Assembler, parts: list[str], ops: list[str]) -> None:
        count = next(int(part[1:]) for part in parts if re.fullmatch(r"x[124]", part))
        if "m8n8" not in parts or parts[-1] != "b16":
            raise ValueError("matrices of this shape are not known here")
        place, vector = (1, 0) if name == "ldmatrix" else (0, 1)
        base, bits = asm.address(ops[place])
        registers = [asm.register(item, 32) for item in elements(ops[vector])]
        if len(registers) != count:
            raise ValueError("another number of registers")
        taken = [*registers, *base] if name == "ldmatrix" else [*base, *registers]
        asm.emit(name, taken, count, int("trans" in parts), bits)

    return rule


def _movmatrix(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    if parts != ["sync", "aligned", "m8n8", "trans", "b16"]:
        raise ValueError("this movmatrix is not known here")
    asm.emit("movmatrix", [asm.register(op, 32) for op in ops])


def _mma(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    sparse = parts[0].startswith("sp")
    shape = next(part for part in parts if re.fullmatch(r"m\d+n8k\d+", part))
    place = parts.index(shape)
    if parts[place + 1 : place + 3] != ["row", "col"] or "satfinite" in parts:
        raise ValueError("this mma is not known here")
    m, k = int(shape[1 : shape.index("n")]), int(shape[shape.index("k") + 1 :])
    d, a, b, c = parts[place + 3 :]
    if d != c:
        raise ValueError("D and C of different types are not known here")
    registers = [asm.register(item, 32) for op in ops[:4] for item in elements(op)]
    selector = -1
    if sparse:
        registers.append(asm.register(ops[4], 32))
        selector = int(ops[5], 0)
    kinds = (ELEMENTS.index(a), ELEMENTS.index(b), _ACCUMULATORS.index(d))
    asm.emit("mma", registers, m, k, *kinds, selector)


def _shuffle(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    way = _SHUFFLES.index(parts[1])
    result, _, inside = ops[0].partition("|")
    taken = [asm.register(result.strip(), 32), asm.predicate(inside.strip() or "_")]
    asm.emit("shfl", [*taken, *(asm.register(op, 32) for op in ops[1:])], way)


def _vote(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    way = _VOTES.index(parts[1])
    result = asm.register(ops[0], 32) if way == 3 else asm.predicate(ops[0])
    asm.emit("vote", [result, asm.predicate(ops[1]), asm.register(ops[2], 32)], way)


def _match(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    result, _, all_match = ops[0].partition("|")
    bits = bits_of(parts[-1])
    taken = [asm.register(result.strip(), 32), asm.predicate(all_match.strip() or "_")]
    taken += [asm.register(ops[1], bits), asm.register(ops[2], 32)]
    asm.emit(f"match.b{bits}", taken, int(parts[0] == "all"))


def _reduce(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    kind = f".{parts[2]}" if parts[1] in ("min", "max") else ""
    asm.emit(f"redux.{parts[1]}{kind}", [asm.register(op, 32) for op in ops])


def _elect(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    leader, _, elected = ops[0].partition("|")
    taken = [asm.register(leader.strip(), 32), asm.predicate(elected.strip())]
    asm.emit("elect", [*taken, asm.register(ops[1], 32)])


def _active_mask(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    asm.emit("activemask", [asm.register(ops[0], 32)])


def _barrier(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    if parts[0] == "cluster":
        return asm.emit(f"barrier.cluster.{parts[1]}", [])
    if parts[0] == "warp":
        return asm.emit("bar.warp.sync", [asm.register(ops[0], 32)])
    if parts[0] == "cta":
        parts = parts[1:]
    if parts[0] not in ("sync", "arrive"):
        raise ValueError("barriers that reduce are not known here")
    threads = [asm.register(ops[1], 32)] if len(ops) > 1 else []
    taken = [asm.register(ops[0], 32), *threads]
    return asm.emit("barrier", taken, len(threads), int(parts[0] == "sync"))


def _wait_for_launches(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    asm.emit("griddepcontrol.wait" if parts == ["wait"] else "nop", [])


def _branch(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    asm.emit_branch(ops[0])


def _branch_to_one(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    asm.emit_branch_to_one(asm.register(ops[0], 32), ops[1])


def _exit(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    asm.emit("exit", [])


def _sleep(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    asm.emit("nanosleep", [])


def _trap(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    asm.emit("trap", [])


RULES: dict[str, Rule] = {
    "ld": _load,
    "ldu": _load,
    "createpolicy": _policy,
    "atom": _change,
    "red": _reduce_memory,
    "cvta": _convert_address,
    "ldmatrix": _matrices("ldmatrix"),
    "stmatrix": _matrices("stmatrix"),
    "movmatrix": _movmatrix,
    "mma": _mma,
    "shfl": _shuffle,
    "vote": _vote,
    "match": _match,
    "redux": _reduce,
    "elect": _elect,
    "activemask": _active_mask,
    "bar": _barrier,
    "barrier": _barrier,
    "griddepcontrol": _wait_for_launches,
    "bra": _branch,
    "brx": _branch_to_one,
    "ret": _exit,
    "exit": _exit,
    "trap": _trap,
    "nanosleep": _sleep,
    # What orders or hastens accesses, of which the emulator makes one after the other.
    **dict.fromkeys(("membar", "prefetch", "prefetchu", "setmaxnreg"), _nothing),
}
