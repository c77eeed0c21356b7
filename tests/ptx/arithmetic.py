"""Arithmetic, comparisons, conversions and moves: from PTX names to the interpreter's."""

from __future__ import annotations

from collections.abc import Callable

from ptx.program import Assembler

Rule = Callable[[Assembler, list[str], list[str]], None]
FLOATS = ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64")
_BITS = {
    "pred": 1, "b8": 8, "s8": 8, "u8": 8, "b16": 16, "s16": 16, "u16": 16, "f16": 16, "bf16": 16,
    "b32": 32, "s32": 32, "u32": 32, "f32": 32, "b64": 64, "s64": 64, "u64": 64, "f64": 64,
    "f16x2": 32, "bf16x2": 32, "s16x2": 32, "u16x2": 32,
}  # fmt: skip
_CVT_TYPES = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f64")
_COMPARISONS = (
    "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
)  # fmt: skip
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMBINATIONS = {"and": 1, "or": 2, "xor": 3}
_ROUNDINGS = {"rn": 0, "rni": 0, "rz": 1, "rzi": 1, "rm": 2, "rmi": 2, "rp": 3, "rpi": 3}


def bits_of(kind: str) -> int:
    """Bits of a type."""
    return _BITS[kind]


def unsigned(kind: str) -> str:
    """The unsigned type of the same bits; floats stay."""
    return kind if kind in FLOATS or kind.endswith("x2") else "u" + kind.lstrip("bsu")


def _only(parts: list[str], *allowed: str) -> None:
    for part in parts:
        if part not in allowed:
            raise ValueError(f".{part} is not known here")


def _alike(asm: Assembler, handler: str, kind: str, ops: list[str]) -> None:
    asm.emit(handler, [asm.register(op, bits_of(kind)) for op in ops])


def _arithmetic(name: str) -> Rule:
    """add, sub, min, max and so on: all operands of one type."""

    def rule(asm: Assembler, parts: list[str], ops: list[str]) -> None:
        if parts[-1] == "relu" and len(parts) == 2:
            return _alike(asm, f"{name}.relu.{parts[0]}", parts[0], ops)
        kind, flags = parts[-1], parts[:-1]
        if kind in FLOATS:
            # Approximations are more exact here; `rn` is how everything rounds.
            _only(flags, "rn", "approx", "full", "sat", "relu", "ftz", "rm", "rp", "rz", "NaN")
            kept = [flag for flag in flags if flag not in ("rn", "approx", "full")]
            handler = ".".join([name, *kept])
            return _alike(asm, f"{handler}.{kind}", kind, ops)
        _only(flags, "lo", "hi")
        part = f".{flags[0]}" if flags else ""
        signless = name in ("add", "sub", "and", "or", "xor", "not", "neg") or part == ".lo"
        kind = unsigned(kind) if signless and kind != "pred" else kind
        return _alike(asm, f"{name}{part}.{kind}", kind, ops)

    return rule


def _multiply(name: str) -> Rule:
    """mul and mad, which may give the low or high half of a product or all of it."""

    def rule(asm: Assembler, parts: list[str], ops: list[str]) -> None:
        if parts[0] != "wide":
            return _arithmetic("fma" if name == "mad" and parts[-1] in FLOATS else name)(
                asm, parts, ops
            )
        bits = bits_of(parts[1])
        widths = [2 * bits, bits, bits, 2 * bits]
        asm.emit(
            f"{name}.wide.{parts[1]}",
            [asm.register(op, width) for op, width in zip(ops, widths, strict=False)],
        )

    return rule


def _logic(name: str) -> Rule:
    def rule(asm: Assembler, parts: list[str], ops: list[str]) -> None:
        (kind,) = parts
        if kind != "pred":
            return _alike(asm, f"{name}.{unsigned(kind)}", kind, ops)
        taken = [asm.predicate(op) for op in ops]
        if name == "not":
            return asm.emit("not.pred", taken)
        return asm.emit("logic.pred", taken, _COMBINATIONS[name])

    return rule


def _shift(name: str) -> Rule:
    def rule(asm: Assembler, parts: list[str], ops: list[str]) -> None:
        (kind,) = parts
        bits = bits_of(kind)
        kind = unsigned(kind) if name == "shl" or kind.startswith("b") else kind
        taken = [asm.register(ops[0], bits), asm.register(ops[1], bits), asm.register(ops[2], 32)]
        asm.emit(f"{name}.{kind}", taken)

    return rule


def _words(name: str) -> Rule:
    """Instructions whose operands are all of 32 bits: prmt, shf, dp4a."""

    def rule(asm: Assembler, parts: list[str], ops: list[str]) -> None:
        flags = [part for part in parts if part != "b32"]
        _alike(asm, ".".join([name, *flags]), "b32", ops)

    return rule


def _lop3(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    _only(parts, "b32")
    asm.emit("lop3", [asm.register(op, 32) for op in ops[:4]], int(ops[4], 0))


def _count(name: str) -> Rule:
    def rule(asm: Assembler, parts: list[str], ops: list[str]) -> None:
        bits = bits_of(parts[0])
        result = bits if name == "brev" else 32
        taken = [asm.register(ops[0], result), asm.register(ops[1], bits)]
        asm.emit(f"{name}.u{bits}", taken)

    return rule


def _field(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    bits = bits_of(parts[0])
    widths = [bits, bits, 32, 32]
    asm.emit(f"bfe.{parts[0]}", [asm.register(*pair) for pair in zip(ops, widths, strict=True)])


def _insert(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    bits = bits_of(parts[0])
    widths = [bits, bits, bits, 32, 32]
    asm.emit(f"bfi.u{bits}", [asm.register(*pair) for pair in zip(ops, widths, strict=True)])


def _compare(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    how, kind = parts[0], parts[-1]
    combination = parts[1:-1]
    both = ops[0].split("|")
    results = [asm.predicate(item.strip()) for item in both] + [asm.predicate("_")]
    taken = [asm.register(op, bits_of(kind)) for op in ops[1:3]]
    with_other = 0
    if combination:
        with_other = _COMBINATIONS[combination[0]]
        taken.append(asm.predicate(ops[3]))
    kind = unsigned(kind) if kind.startswith("b") and kind not in FLOATS else kind
    how = _UNSIGNED.get(how, how)
    asm.emit(f"setp.{kind}", [*results[:2], *taken], _COMPARISONS.index(how), with_other)


def _select(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    bits = bits_of(parts[0])
    taken = [asm.register(op, bits) for op in ops[:3]]
    asm.emit(f"selp.u{max(bits, 32)}", [*taken, asm.predicate(ops[3])])


def _move(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    kind = parts[-1]
    if kind == "pred":
        return asm.emit("mov.pred", [asm.predicate(op) for op in ops])
    bits = bits_of(kind)
    for place, way in ((0, "split"), (1, "join")):
        if ops[place].startswith("{"):
            pieces = [piece.strip() for piece in ops[place].strip("{}").split(",")]
            part = [asm.register(piece, bits // len(pieces)) for piece in pieces]
            whole = [asm.register(ops[1 - place], bits)]
            taken = [*part, *whole] if way == "split" else [*whole, *part]
            return asm.emit(f"{way}.u{bits}.{len(pieces)}", taken)
    return asm.emit(f"mov.u{max(bits, 32)}", [asm.register(op, bits) for op in ops])


def _convert(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    *flags, to, source = parts
    if parts[0] == "pack":
        if parts[1] != "sat" or parts[3] != "s32" or parts[2] not in ("s8", "u8"):
            raise ValueError("this cvt.pack is not known here")
        taken = [asm.register(op, 32) for op in ops]
        if len(parts) == 4:
            taken.append(asm.constant(0, 32))
        return asm.emit(f"cvt.pack.sat.{parts[2]}", taken)
    if asm.knows(f"cvt.{to}.{source}"):
        _only(flags, "rn", "satfinite", "relu")
        widths = [16 if "e4m3" in to else 32, *[16 if "e4m3" in source else 32] * (len(ops) - 1)]
        taken = [asm.register(*pair) for pair in zip(ops, widths, strict=True)]
        return asm.emit(f"cvt.{to}.{source}", taken, int("relu" in flags))
    if asm.knows(".".join(["cvt", *parts])):
        return asm.emit(".".join(["cvt", *parts]), [asm.register(op, 32) for op in ops])
    _only(flags, "sat", *_ROUNDINGS)
    rounding = next((_ROUNDINGS[flag] for flag in flags if flag in _ROUNDINGS), 0)
    whole = any(flag.endswith("i") for flag in flags if flag in _ROUNDINGS)
    widths = [asm.bits(ops[0]), asm.bits(ops[1]) or max(bits_of(source), 32)]
    kinds = [_CVT_TYPES.index(to), _CVT_TYPES.index(source)]
    taken = [asm.register(*pair) for pair in zip(ops, widths, strict=True)]
    return asm.emit("cvt", taken, *kinds, rounding, int("sat" in flags) + 2 * whole, *widths)


RULES: dict[str, Rule] = {
    **{
        name: _arithmetic(name)
        for name in (
            "add", "sub", "div", "rem", "min", "max", "neg", "abs", "fma", "rcp", "sqrt", "rsqrt",
            "ex2", "lg2", "sin", "cos", "tanh", "copysign",
        )
    },
    **{name: _multiply(name) for name in ("mul", "mad")},
    **{name: _logic(name) for name in ("and", "or", "xor", "not")},
    **{name: _shift(name) for name in ("shl", "shr")},
    **{name: _words(name) for name in ("prmt", "shf", "dp4a", "dp2a")},
    **{name: _count(name) for name in ("popc", "clz", "brev")},
    "lop3": _lop3,
    "bfe": _field,
    "bfi": _insert,
    "setp": _compare,
    "selp": _select,
    "mov": _move,
    "cvt": _convert,
}  # fmt: skip
