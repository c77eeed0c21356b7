"""mbarriers, bulk copies, clusters and wgmma: from PTX names to the interpreter's."""

from __future__ import annotations

import re

from ptx import movement
from ptx.arithmetic import Rule, bits_of
from ptx.movement import ELEMENTS, elements
from ptx.program import Assembler

_ACCUMULATORS = ("s32", "f32", "f16")
_ORDER = re.compile(r"relaxed|release|acquire|cta|cluster|shared|shared::\w+|b64")
_TENSOR_ADDRESS = re.compile(r"\[\s*(\S+?)\s*,\s*\{(.*)\}\s*\]$")
_A_REGISTERS, _NEGATE_A, _NEGATE_B, _SPARSE, _SELECTOR, _TRANSPOSED_B = 1, 2, 4, 8, 16, 32
_ARRIVES, _ANNOUNCES, _HAS_OPERAND, _TAKES_OFF = 1, 2, 4, 8


def _barrier(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    what = parts[0]
    if what == "pending_count":
        taken = [asm.register(ops[0], 32), asm.register(ops[1], 64)]
        return asm.emit("mbarrier.pending_count", taken)
    words = [part for part in parts[1:] if not _ORDER.fullmatch(part)]
    if what in ("init", "inval"):
        base, _ = asm.address(ops[0])
        count = [asm.register(ops[1], 32)] if what == "init" else []
        return asm.emit(f"mbarrier.{what}", [*base, *count])
    if what in ("try_wait", "test_wait"):
        if words not in ([], ["parity"]):
            raise ValueError("this wait is not known here")
        base, _ = asm.address(ops[1])
        parity = words == ["parity"]
        phase = asm.register(ops[2], 32 if parity else 64)
        taken = [asm.predicate(ops[0]), *base, phase]
        return asm.emit("mbarrier.wait", taken, int(parity), int(what == "try_wait"))
    if what == "arrive" and words in ([], ["expect_tx"]):
        state, *ops = ops
        how = _ARRIVES | (_ANNOUNCES if words else 0)
    elif what in ("expect_tx", "complete_tx") and not words:
        state, how = "_", _ANNOUNCES if what == "expect_tx" else _TAKES_OFF
    else:
        raise ValueError("this mbarrier instruction is not known here")
    base, _ = asm.address(ops[0])
    given = [asm.register(ops[1], 32)] if len(ops) > 1 else []
    taken = [asm.register(state, 64), *base, *given]
    return asm.emit("mbarrier.arrive", taken, how | (_HAS_OPERAND if given else 0))


def _copy(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    """cp.async in all of its forms."""
    if parts[:2] != ["async", "bulk"]:
        return movement.copy(asm, parts, ops)
    rest = parts[2:]
    if rest[0] == "commit_group":
        return asm.emit("cp.async.bulk.commit_group", [])
    if rest[0] == "wait_group":
        return asm.emit("cp.async.bulk.wait_group", [], int(ops[0]), int("read" in rest))
    if rest[0] == "prefetch":
        return asm.emit("nop", [])
    if "L2::cache_hint" in rest:
        rest.remove("L2::cache_hint")
        ops.pop()
    if rest[0] == "tensor":
        return _tensor(asm, rest[1:], ops)
    mask = "multicast::cluster" in rest
    if rest[:3] in (
        ["shared::cluster", "global", "mbarrier::complete_tx::bytes"],
        ["shared::cta", "global", "mbarrier::complete_tx::bytes"],
    ):
        taken = [*asm.address(ops[0])[0], *asm.address(ops[1], 64)[0], asm.register(ops[2], 32)]
        taken += asm.address(ops[3])[0]
        taken += [asm.register(ops[4], 16)] if mask else []
        return asm.emit("cp.async.bulk.load", taken, int(mask))
    if rest != ["global", "shared::cta", "bulk_group"]:
        raise ValueError("this bulk copy is not known here")
    taken = [*asm.address(ops[0], 64)[0], *asm.address(ops[1])[0], asm.register(ops[2], 32)]
    return asm.emit("cp.async.bulk.store", taken)


def _tensor(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    rank = int(parts[0].removesuffix("d"))
    words = set(parts[1:])
    loads = "mbarrier::complete_tx::bytes" in words
    mask, im2col = "multicast::cluster" in words, "im2col" in words
    found = _TENSOR_ADDRESS.match(ops[1 if loads else 0])
    if found is None:
        raise ValueError("no tensor map and coordinates")
    tensor_map = [asm.register(found[1], 64), 0]
    coordinates = [asm.register(item, 32) for item in elements(found[2])]
    if len(coordinates) != rank:
        raise ValueError("another number of coordinates")
    known = {"shared::cluster", "shared::cta", "global", "tile", "im2col", "bulk_group"}
    known |= {"mbarrier::complete_tx::bytes", "multicast::cluster"}
    if words - known:
        raise ValueError(f"{words - known} is not known here")
    if not loads:
        taken = [*tensor_map, *asm.address(ops[1])[0], *coordinates]
        return asm.emit("cp.async.bulk.tensor.store", taken, rank)
    taken = [*asm.address(ops[0])[0], *tensor_map, *asm.address(ops[2])[0], *coordinates]
    offsets = [asm.register(item, 16) for item in elements(ops[3])] if im2col else []
    taken += offsets
    if im2col and (rank != 4 or len(offsets) != 2):
        raise ValueError("im2col of this rank is not known here")
    taken += [asm.register(ops[-1], 16)] if mask else []
    return asm.emit("cp.async.bulk.tensor.load", taken, rank, len(offsets), int(mask))


def _store(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    if parts[0] != "async":
        return movement.store(asm, parts, ops)
    words = [part for part in parts[1:-1] if part not in ("weak", "v2", "v4")]
    if words != ["shared::cluster", "mbarrier::complete_tx::bytes"]:
        raise ValueError("this st.async is not known here")
    bits = bits_of(parts[-1])
    values = [asm.register(item, bits) for item in elements(ops[1])]
    taken = [*asm.address(ops[0])[0], *asm.address(ops[2])[0], *values]
    return asm.emit("st.async", taken, len(values), bits // 8)


def _map_address(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    if parts != ["shared::cluster", "u32"]:
        raise ValueError("this mapa is not known here")
    asm.emit("mapa", [asm.register(op, 32) for op in ops])


def _fence(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    """The asynchronous proxy is fenced; all else happens in order here."""
    asm.emit("fence.proxy.async" if parts[:2] == ["proxy", "async"] else "nop", [])


def _wgmma(asm: Assembler, parts: list[str], ops: list[str]) -> None:
    if parts[0] == "fence":
        return asm.emit("nop", [])
    if parts[0] == "commit_group":
        return asm.emit("wgmma.commit_group", [])
    if parts[0] == "wait_group":
        return asm.emit("wgmma.wait_group", [], int(ops[0]))
    flags = _SPARSE if parts[1] == "sp" else 0
    place = next(i for i, part in enumerate(parts) if re.fullmatch(r"m64n\d+k\d+", part))
    _, n, k = map(int, re.findall(r"\d+", parts[place]))
    d, a, b = parts[place + 1 : place + 4]
    if parts[place + 4 :]:
        raise ValueError(f"{parts[place + 4 :]} is not known here")
    taken = [asm.register(item, 32) for item in elements(ops[0])]
    if len(taken) != n // (4 if d == "f16" else 2):
        raise ValueError("another number of accumulators")
    if ops[1].startswith("{"):
        flags |= _A_REGISTERS
        taken += [asm.register(item, 32) for item in elements(ops[1])]
    else:
        taken.append(asm.register(ops[1], 64))
    taken.append(asm.register(ops[2], 64))
    rest = ops[3:]
    if flags & _SPARSE:
        taken.append(asm.register(rest[0], 32))
        flags |= _SELECTOR if int(rest[1]) else 0
        rest = rest[2:]
    taken.append(asm.predicate(rest[0]))
    immediates = [int(item) for item in rest[1:]]
    if immediates:
        flags |= (_NEGATE_A if immediates[0] < 0 else 0) | (_NEGATE_B if immediates[1] < 0 else 0)
        *of_a, of_b = immediates[2:] or [0]
        if any(of_a):
            raise ValueError("a transposed A is not known here")
        flags |= _TRANSPOSED_B if of_b else 0
    kinds = (ELEMENTS.index(a), ELEMENTS.index(b), _ACCUMULATORS.index(d))
    return asm.emit("wgmma", taken, n, *kinds, k, flags)


RULES: dict[str, Rule] = {
    "mbarrier": _barrier,
    "cp": _copy,
    "st": _store,
    "mapa": _map_address,
    "fence": _fence,
    "wgmma": _wgmma,
}
