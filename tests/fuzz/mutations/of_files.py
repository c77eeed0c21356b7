"""What can happen to a file or to a value of JSON, drawn at random."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

ODD_VALUES = (
    None, True, False, 0, -1, 1, 2, 3, 255, 256, 257, 511, 4096, 2**31 - 1, 2**31, 2**32, 2**40,
    2**63 - 1, 2**63, 2**64, -(2**63), 10**25, 10**400, 0.5, 1e308, float("inf"), float("nan"), "",
    "x", "main", "arena", "constant", "cpu", "cuda", "int8", "uint8", "float32", "int4", "object",
    "\0", "\n", "../x", "\ud800", "x" * 10_000, [], {}, [[]], [0], [1, 2, 3], [1] * 40, {"type": 1},
)  # fmt: skip


def mangle_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """A file after a few accidents: bits, runs of bytes, cuts, copies and moves."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        size = len(changed)
        if not size:
            break
        at, end = sorted(int(place) for place in rng.integers(0, size + 1, 2))
        end = min(end, at + int(rng.choice([1, 8, 512, 4096])))
        run = bytes(changed[at:end])
        kind = int(rng.integers(9))
        if kind <= 1:
            changed[min(at, size - 1)] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            changed[at:end] = rng.bytes(len(run))
        elif kind == 3:
            changed[at:end] = bytes([int(rng.choice([0, 255, 48]))]) * len(run)
        elif kind == 4:
            del changed[at:end]
        elif kind == 5:
            changed[at:at] = run
        elif kind == 6:
            del changed[int(rng.integers(size)) :]
        elif kind == 7:
            changed += rng.bytes(int(rng.integers(1, 2000)))
        else:
            there = int(rng.integers(size))
            changed[there : there + len(run)] = run
    return bytes(changed)


def mangle_json(rng: np.random.Generator, value: Any) -> Any:
    """A copy of a JSON value with one to three of its parts changed."""
    changed = copy.deepcopy(value)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        changed = _mangle_part(rng, changed)
    return changed


def _mangle_part(rng: np.random.Generator, root: Any) -> Any:
    """Change one part, any as likely as any other; the root itself now and then."""
    parts = list(_parts(root)) if isinstance(root, dict | list) else []
    if not parts or rng.random() < 0.02:
        return _other(rng, root)
    holder, key = parts[int(rng.integers(len(parts)))]
    value = holder[key]
    kind = int(rng.integers(10))
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[str(rng.choice(["more", "type", "kind", "", "offset"]))] = _other(rng, value)
    elif kind == 1:
        holder.insert(key, copy.deepcopy(value))
    elif kind <= 5:
        alike = [there[at] for there, at in parts if type(there[at]) is type(value)]
        holder[key] = copy.deepcopy(alike[int(rng.integers(len(alike)))])
    else:
        holder[key] = _other(rng, value)
    return root


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place inside a value, as the container and the key or index in it."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _parts(value[key])


def _other(rng: np.random.Generator, value: Any) -> Any:
    """Another value in place of one: near it when it is a number, else any odd one."""
    if type(value) is int and rng.random() < 0.6:
        steps = (-256, -1, 1, 4, 64, 256, 512, 1024, value, -value, value // 2)
        return value + int(steps[int(rng.integers(len(steps)))])
    if isinstance(value, list) and value and rng.random() < 0.5:
        return value[: int(rng.integers(len(value)))] if rng.random() < 0.5 else value[::-1]
    return copy.deepcopy(ODD_VALUES[int(rng.integers(len(ODD_VALUES)))])
