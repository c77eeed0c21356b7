"""Record files to mangle: good lines, and what a disk, an editor or an attacker makes of them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Rng = np.random.Generator

VALUES = (
    "NaN", "Infinity", "-Infinity", "1e-17", "-1e-07", "0", "0.0", "-0.0", "5e-324", "1e300",
    "1e400", "9" * 400, "9" * 5000, "-" + "9" * 30, "true", "false", "null", "1.9", "1.0", "[]",
    "{}", '""', '"x"', '"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', '"\\u001b[2J"', '"\\n"',
    '"' + "x" * 3000 + '"', '"é漢"', '["halo"]', '{"a":1}', "[[[[1]]]]", "9223372036854775808",
    "4294967296", "1e5", '"1"', "[1,2,3,4,5,6,7,8,9]", "[true,1]", "[" * 50 + "]" * 50,
    "[" * 3000 + "]" * 3000, "[" * 200_000, '{"a":' * 2000 + "1" + "}" * 2000, "// 1", "'1'",
)  # fmt: skip
NAMES = ("format", "seconds", "failure", "crc32", "confirmed", "workload", "operator", "n", "note")


def one_byte(rng: Rng, line: bytes) -> bytes:
    """Another byte somewhere."""
    at = int(rng.integers(len(line)))
    return line[:at] + bytes([int(rng.integers(256))]) + line[at + 1 :]


def one_bit(rng: Rng, line: bytes) -> bytes:
    """A bit flips."""
    at = int(rng.integers(len(line)))
    return line[:at] + bytes([line[at] ^ 1 << int(rng.integers(8))]) + line[at + 1 :]


def one_digit(rng: Rng, line: bytes) -> bytes:
    """Another digit in place of a digit."""
    places = [at for at, byte in enumerate(line) if 48 <= byte < 58]
    if not places:
        return line
    at = int(rng.choice(places))
    return line[:at] + str(rng.integers(10)).encode() + line[at + 1 :]


def cut(rng: Rng, line: bytes) -> bytes:
    """A piece is missing."""
    first, last = sorted(rng.integers(len(line) + 1, size=2).tolist())
    return line[:first] + line[last:]


def doubled(rng: Rng, line: bytes) -> bytes:
    """A piece stands there twice."""
    first, last = sorted(rng.integers(len(line) + 1, size=2).tolist())
    return line[:last] + line[first:]


def noise(rng: Rng, line: bytes) -> bytes:
    """Random bytes in between."""
    at = int(rng.integers(len(line) + 1))
    return line[:at] + rng.bytes(int(rng.integers(1, 40))) + line[at:]


def encoded(rng: Rng, line: bytes) -> bytes:
    """The text in another encoding, or with the mark of one."""
    text = line.decode(errors="replace")
    name = str(rng.choice(["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-7", "cp500"]))
    return text.encode(name, errors="replace")


def blank(rng: Rng, line: bytes) -> bytes:
    """Blocks that were never written hold zeros."""
    return b"\0" * len(line)


def huge(rng: Rng, line: bytes) -> bytes:
    """Megabytes in one line."""
    return line[:40] + rng.choice([b"x", b" ", b"[", b"9"]) * (3 << 20) + line[40:]


BYTES = (one_byte, one_bit, one_digit, one_digit, cut, doubled, noise, encoded, blank, huge)


def fields_changed(rng: Rng, line: bytes) -> bytes:
    """A value or a name becomes another; the checksum is gone, right or wrong."""
    fields = json.loads(line)
    fields.pop("crc32", None)
    marks: dict[str, str] = {}
    for _ in range(int(rng.integers(1, 4))):
        _change(rng, fields, marks)
    text = json.dumps(fields, separators=(",", ":"))
    for mark, value in marks.items():
        text = text.replace(f'"{mark}"', value)
    kind = rng.integers(4)
    if kind == 0:
        return text.encode()
    right = zlib.crc32(text[:-1].encode(errors="replace")) ^ int(kind == 1)
    return f'{text[:-1]},"crc32":"{right:08x}"}}'.encode(errors="replace")


def _change(rng: Rng, fields: dict[str, Any], marks: dict[str, str]) -> None:
    """Change an entry of a random object in `fields`, to what a mark will be replaced by."""
    objects = [fields]
    for one in objects:
        objects += [value for value in one.values() if isinstance(value, dict)]
    target = objects[int(rng.integers(len(objects)))]
    mark = f"@{len(marks)}@"
    marks[mark] = str(rng.choice(np.array(VALUES, dtype=object)))
    if not target or rng.random() < 0.1:
        target[str(rng.choice(NAMES))] = mark
        return
    name = str(rng.choice(list(target)))
    if rng.random() < 0.15:
        target[str(rng.choice(NAMES))] = target.pop(name)
    elif isinstance(target[name], list) and target[name] and rng.random() < 0.7:
        target[name][int(rng.integers(len(target[name])))] = mark
    elif rng.random() < 0.1:
        del target[name]
    else:
        target[name] = mark


def mangled(rng: Rng, lines: Sequence[bytes]) -> tuple[bytes, set[bytes]]:
    """A file made of good lines, some of them damaged.

    Returns its bytes, and the lines that may be read though they are none of the good ones: those
    whose checksum was made to fit, or removed.
    """
    free: set[bytes] = set()
    out: list[bytes] = []
    for line in lines:
        if rng.random() < 0.7:
            out.append(line)
        elif rng.random() < 0.6:
            ways: tuple[Callable[[Rng, bytes], bytes], ...] = BYTES
            damaged = line
            for _ in range(int(rng.integers(1, 3))):
                damaged = ways[int(rng.integers(len(ways)))](rng, damaged) or line
            out.append(damaged)
        else:
            changed = fields_changed(rng, line)
            free |= set(changed.split(b"\n"))
            out.append(changed)
    ends = (b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b" \n")
    data = b"".join(line + ends[int(rng.integers(len(ends)))] for line in out)
    if rng.random() < 0.3:
        data = data[: int(rng.integers(len(data) + 1))]
    if rng.random() < 0.1:
        data = data.rstrip(b"\n")
    return data, free
