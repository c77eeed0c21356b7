"""Single instructions of the emulator on random operands and awkward ones, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from autoq.runtime.kernel import Buffer, Launch
from ptx.emulate import Memory, Mode, launch

THREADS, BLOCKS = 64, 8
COUNT = THREADS * BLOCKS
_NUMPY = {
    "s16": np.int16, "u16": np.uint16, "s32": np.int32, "u32": np.uint32, "b32": np.uint32,
    "s64": np.int64, "u64": np.uint64, "f32": np.float32, "f16": np.float16, "f64": np.float64,
    "b16": np.uint16, "b64": np.uint64,
}  # fmt: skip
_EDGES = {
    "i": [0, 1, -1, 2, 7, 31, 32, 33, 255, -128, -(1 << 15), (1 << 15) - 1],
    "f": [0.0, -0.0, 1.0, -1.5, 2.5, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e-41, 3e38, 6e4],
}


@dataclass(frozen=True)
class Case:
    """An instruction with D, A, B, C for its operands, their types, and what numpy says."""

    text: str
    types: tuple[str, ...]
    expected: Callable[..., Any]
    tolerance: float = 0.0


def operand(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Random values of a type, the awkward ones among them."""
    dtype = np.dtype(_NUMPY[kind])
    if dtype.kind == "f":
        values = rng.normal(size=COUNT) * 2.0 ** rng.integers(-12, 12, COUNT)
        edges = np.array(_EDGES["f"], np.float64)
    else:
        bits = rng.integers(0, 1 << 63, COUNT, np.int64) >> rng.integers(0, 63, COUNT)
        values, edges = bits * rng.choice([1, -1], COUNT), np.array(_EDGES["i"], np.int64)
    places = rng.permutation(COUNT)[: 6 * len(edges)]
    values[places] = np.tile(edges, 6)
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def run(case: Case, arrays: list[np.ndarray]) -> np.ndarray:
    """What the instruction gives for each element."""
    out = np.dtype(_NUMPY[case.types[0]])
    kinds = [f"b{8 * np.dtype(_NUMPY[kind]).itemsize}" for kind in case.types]
    names = "dabc"[: len(kinds)]
    lines = [f".reg .{kind} {name};" for name, kind in zip(names, kinds, strict=True)]
    for i, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        lines += [f"ld.param.u64 p{i}, [k_param_{i}];", f"mad.wide.u32 p{i}, at, "
                  f"{int(kind[1:]) // 8}, p{i};"]  # fmt: skip
        if i:
            lines.append(f"ld.global.{kind} {name}, [p{i}];")
    text = case.text
    for name in names:
        text = text.replace(name.upper(), name)
    parameters = ", ".join(f".param .u64 k_param_{i}" for i in range(len(kinds)))
    ptx = (
        f".visible .entry k({parameters}) {{ .reg .pred q; .reg .u32 at, x, y; .reg .u64 p<4>; "
        "mov.u32 x, %ctaid.x; mov.u32 y, %ntid.x; mov.u32 at, %tid.x; mad.lo.u32 at, x, y, at; "
        f"{' '.join(lines)} {text} st.global.{kinds[0]} [p0], d; ret; }}"
    )
    memories = [Memory(np.zeros(COUNT, out), True), *(Memory(array, False) for array in arrays)]
    arguments = tuple(map(Buffer, range(len(memories))))
    item = Launch("k", (BLOCKS, 1, 1), (THREADS, 1, 1), (1, 1, 1), 0, arguments)
    launch(ptx, item, memories, Mode())
    return memories[0].bytes.view(out)


def wide(a: np.ndarray) -> np.ndarray:
    """Integers of Python's size."""
    return a.astype(object)


def trimmed(values: np.ndarray, kind: str) -> np.ndarray:
    """The low bits of integers of any size."""
    dtype = np.dtype(_NUMPY[kind])
    bits = 8 * dtype.itemsize
    raw = np.array([int(value) & (1 << bits) - 1 for value in values], np.uint64)
    return raw.astype(f"u{dtype.itemsize}").view(dtype)


def exact(text: str, kind: str, f: Callable[..., Any], count: int = 2) -> Case:
    """An integer instruction that is exact arithmetic, trimmed."""
    return Case(text, (kind,) * (count + 1), lambda *a: trimmed(f(*map(wide, a)), kind))


def each(f: Callable[..., int]) -> Callable[..., np.ndarray]:
    """f over the elements as Python integers."""
    return lambda *a: np.array([f(*map(int, item)) for item in zip(*a, strict=True)], object)


def permuted(a: int, b: int, selector: int) -> int:
    raw = (b << 32 | a).to_bytes(8, "little")
    out = [raw[selector >> 4 * i & 7] for i in range(4)]
    signs = [selector >> 4 * i & 8 for i in range(4)]
    chosen = [(255 if x & 128 else 0) if s else x for x, s in zip(out, signs, strict=True)]
    return int.from_bytes(bytes(chosen), "little")


def dot(a: int, b: int, c: int) -> int:
    left = np.array([a], np.uint32).view(np.int8).astype(int)
    right = np.array([b], np.uint32).view(np.uint8).astype(int)
    return c + int(left @ right)


def field(a: int, position: int, length: int) -> int:
    """bfe.s32 by the text of the PTX ISA."""
    position, length = position & 255, length & 255
    last = min(position + length - 1, 31)
    sign = 0 if length == 0 or last < 0 else a >> last & 1
    bits = [a >> position + i & 1 if i < length and position + i <= 31 else sign for i in range(32)]
    return sum(bit << i for i, bit in enumerate(bits))


def inserted(b: int, position: int, length: int) -> int:
    """bfi.b32 of all ones into b."""
    for i in range(min(length & 255, 32)):
        if (position & 255) + i < 32:
            b |= 1 << (position & 255) + i
    return b


def nearest(kind: str) -> Callable[[np.ndarray], np.ndarray]:
    """Saturating conversion of float32 to integers."""
    limits = np.iinfo(_NUMPY[kind])

    def convert(a: np.ndarray) -> np.ndarray:
        near = np.rint(np.nan_to_num(a.astype(np.float64), nan=0.0, posinf=1e30, neginf=-1e30))
        return trimmed(np.array([int(np.clip(x, limits.min, limits.max)) for x in near]), kind)

    return convert


CASES = [
    *(exact(f"add.{k} D, A, B;", k, lambda a, b: a + b) for k in ("s16", "u32", "s64")),
    *(exact(f"mul.lo.{k} D, A, B;", k, lambda a, b: a * b) for k in ("s16", "s32", "u64")),
    *(exact(f"min.{k} D, A, B;", k, np.minimum) for k in ("s16", "u32", "s64")),
    exact("mul.hi.s32 D, A, B;", "s32", lambda a, b: (a * b) // (1 << 32)),
    exact("mul.hi.u64 D, A, B;", "u64", lambda a, b: (a * b) // (1 << 64)),
    exact("mad.lo.s32 D, A, B, C;", "s32", lambda a, b, c: a * b + c, 3),
    exact("xor.b64 D, A, B;", "b64", lambda a, b: a ^ b),
    exact("lop3.b32 D, A, B, C, 0xca;", "b32", lambda a, b, c: (a & b) | (~a & c), 3),
    exact("prmt.b32 D, A, B, C;", "b32", each(permuted), 3),
    exact("shf.r.wrap.b32 D, A, B, C;", "b32",
          each(lambda a, b, c: (b << 32 | a) >> (c & 31)), 3),
    exact("shf.l.clamp.b32 D, A, B, C;", "b32",
          each(lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32), 3),
    exact("bfe.s32 D, A, B, C;", "b32", each(field), 3),
    exact("bfi.b32 D, -1, A, B, C;", "b32", each(inserted), 3),
    exact("shr.s32 D, A, B;", "b32",
          each(lambda a, b: (a - (1 << 32) if a >> 31 else a) >> min(b, 32))),
    exact("shl.b32 D, A, B;", "b32", each(lambda a, b: a << b if b < 32 else 0)),
    exact("popc.b32 D, A;", "b32", each(lambda a: a.bit_count()), 1),
    exact("clz.b32 D, A;", "b32", each(lambda a: 32 - a.bit_length()), 1),
    exact("brev.b32 D, A;", "b32", each(lambda a: int(f"{a:032b}"[::-1], 2)), 1),
    exact("dp4a.s32.u32 D, A, B, C;", "b32", each(dot), 3),
    exact("max.s16x2 D, A, B;", "b32", lambda a, b: np.maximum(
        a.astype(np.uint32).view(np.int16), b.astype(np.uint32).view(np.int16)).view(np.uint32)),
    exact("setp.lt.s32 q, A, B; selp.b32 D, A, B, q;", "s32", np.minimum),
    Case("mul.wide.s32 D, A, B;", ("s64", "s32", "s32"), lambda a, b: a.astype(np.int64) * b),
    Case("add.rn.f32 D, A, B;", ("f32",) * 3, lambda a, b: a + b),
    Case("mul.rn.f32 D, A, B;", ("f32",) * 3, lambda a, b: a * b),
    Case("div.rn.f32 D, A, B;", ("f32",) * 3, lambda a, b: a / b),
    Case("sqrt.rn.f32 D, A;", ("f32",) * 2, np.sqrt),
    Case("min.f32 D, A, B;", ("f32",) * 3, np.fmin),
    Case("max.NaN.f16 D, A, B;", ("f16",) * 3, np.maximum),
    Case("min.NaN.f32 D, A, B;", ("f32",) * 3, np.minimum),
    Case("ex2.approx.f32 D, A;", ("f32",) * 2, lambda a: np.exp2(a.astype(np.float64)), 2e-7),
    Case("add.rn.f16 D, A, B;", ("f16",) * 3, lambda a, b: a + b),
    Case("mul.rn.f16 D, A, B;", ("f16",) * 3, lambda a, b: a * b),
    Case("cvt.rn.f16.f32 D, A;", ("f16", "f32"), lambda a: a.astype(np.float16)),
    Case("cvt.f32.f16 D, A;", ("f32", "f16"), lambda a: a.astype(np.float32)),
    Case("cvt.rni.s32.f32 D, A;", ("s32", "f32"), nearest("s32")),
    Case("cvt.rni.u16.f32 D, A;", ("u16", "f32"), nearest("u16")),
    Case("cvt.rn.f32.s32 D, A;", ("f32", "s32"), lambda a: a.astype(np.float32)),
    Case("cvt.rn.f32.u64 D, A;", ("f32", "u64"), lambda a: a.astype(np.float32)),
    Case("cvt.s64.s16 D, A;", ("s64", "s16"), lambda a: a.astype(np.int64)),
    Case("cvt.sat.s16.s32 D, A;", ("s16", "s32"),
         lambda a: np.clip(a, -32768, 32767).astype(np.int16)),
    Case("cvt.pack.sat.u8.s32.b32 D, A, B, 5;", ("u32", "s32", "s32"),
         lambda a, b: 5 << 16 | np.clip(a, 0, 255).astype(np.uint32) << 8 | np.clip(b, 0, 255)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text)
def test_gives_what_numpy_does(case: Case) -> None:
    rng = np.random.default_rng(len(case.text))
    arrays = [operand(kind, rng) for kind in case.types[1:]]
    with np.errstate(all="ignore"):
        expected = np.asarray(case.expected(*arrays)).astype(_NUMPY[case.types[0]])
    found = run(case, arrays)
    if case.tolerance:
        np.testing.assert_allclose(found, expected, rtol=case.tolerance)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("way", ["m", "p", "z"])
def test_directed_sums_are_the_next_float(way: str) -> None:
    """On the named side of the exact sum of doubles of few bits, and as near as any."""
    rng = np.random.default_rng(4)
    a, b, c = (rng.integers(-(1 << 20), 1 << 20, COUNT).astype(np.float32) for _ in range(3))
    exact_sum = a.astype(np.float64) * b + c
    found = run(Case(f"fma.r{way}.f32 D, A, B, C;", ("f32",) * 4, np.add), [a, b, c])
    down = {"m": np.ones(COUNT, bool), "p": np.zeros(COUNT, bool), "z": exact_sum > 0}[way]
    apart = np.where(down, exact_sum - found, found - exact_sum)
    assert (apart >= 0).all() and (apart < np.spacing(np.abs(found))).all() and apart.any()
