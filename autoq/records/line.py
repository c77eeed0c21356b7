"""A line of a record file: a JSON object whose last member is the checksum of the bytes before it.

The checksum is the CRC-32 of the line up to the comma in front of that member, in eight
hexadecimal digits: it notices every change of one digit, and of up to four bytes in a row.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from math import isfinite
from typing import Any

from autoq.errors import RecordError

LONGEST_LINE = 1 << 20
"""Bytes of a line that are read; a record takes about 700."""

CHECKSUM = "crc32"

NOT_JSON, TOO_LONG = "not JSON", "too long"
"""Kinds of bad lines that the first part of a longer line can be."""

_SEAL = re.compile(rb',"crc32":"([0-9a-f]{8})"\}')
_SEAL_BYTES = len(',"crc32":"01234567"}')

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(rb"[][{}]")
# Most lines have no long number and no escaped character, and need no closer look.
_ODD = re.compile(rb"[0-9]{19}|\\u")
_BLANKS = b" \t\r\n"
_DEEPEST = 16
_LARGEST_INTEGER = 1 << 63
_LONGEST_DETAIL = 200


class BadLine(RecordError):
    """A line that is not a record: `kind` is the reason to count by, the message says more."""

    def __init__(self, kind: str, detail: str = "") -> None:
        text = f"{kind}: {detail}" if detail else kind
        if len(text) > _LONGEST_DETAIL:
            text = text[: _LONGEST_DETAIL - 3] + "..."
        super().__init__(" ".join(text.split()))
        self.kind = kind


def seal(fields: Mapping[str, Any]) -> str:
    """The fields as one JSON line with its checksum, without the newline."""
    body = json.dumps(fields, separators=(",", ":"), allow_nan=False)[:-1]
    return f'{body},"{CHECKSUM}":"{zlib.crc32(body.encode()):08x}"}}'


def unseal(line: bytes) -> tuple[dict[str, Any], bool]:
    """The fields of a line, their checksum left out, and whether it had one that is right.

    A line without a checksum is one of an older autoq.

    Raises BadLine for a line that is no JSON object of ordinary values, or whose checksum is not
    that of its bytes.
    """
    line = line.strip(_BLANKS)
    if len(line) > LONGEST_LINE:
        raise BadLine(TOO_LONG, f"more than {LONGEST_LINE} bytes")
    fields = _parse(line)
    if CHECKSUM not in fields:
        return fields, False
    found = _SEAL.fullmatch(line[-_SEAL_BYTES:])
    if found is None or int(found[1], 16) != zlib.crc32(line[:-_SEAL_BYTES]):
        raise BadLine("checksum differs", "the line is not as it was written")
    del fields[CHECKSUM]
    return fields, True


def _parse(line: bytes) -> dict[str, Any]:
    if line.count(b"[") + line.count(b"{") > _DEEPEST:
        _check_depth(line)
    odd = bool(_ODD.search(line))
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadLine("not UTF-8", f"byte {line[error.start]:#04x} at {error.start}") from error
    try:
        fields = json.loads(
            text,
            object_pairs_hook=_distinct,
            parse_float=_finite,
            parse_int=_integer if odd else None,
            parse_constant=_no_number,
        )
    except BadLine:
        raise
    except ValueError as error:
        raise BadLine(NOT_JSON, str(error)) from error
    if not isinstance(fields, dict):
        raise BadLine("not a tuning record", f"a {type(fields).__name__}, not an object")
    if odd:
        _check_texts(fields)
    return fields


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise BadLine("a field twice")
    return fields


def _integer(digits: str) -> int:
    # Python refuses integers of thousands of digits, and floats end at 309.
    if len(digits) > 20 or abs(int(digits)) >= _LARGEST_INTEGER:
        raise BadLine("number out of range", f"an integer of {len(digits)} digits")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not isfinite(value):
        raise BadLine("number out of range", digits)
    return value


def _no_number(name: str) -> Any:
    raise BadLine("number out of range", name)


def _check_depth(line: bytes) -> None:
    """Raise BadLine for nesting at which a parser may give up."""
    depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub(b"", line)):
        depth += 1 if bracket in b"[{" else -1
        if depth > _DEEPEST:
            raise BadLine("nested too deep", f"more than {_DEEPEST} levels")


def _check_texts(value: Any) -> None:
    """Raise BadLine for text in a value that is none."""
    if isinstance(value, dict):
        for name, inner in value.items():
            _check_texts(name)
            _check_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_texts(inner)
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise BadLine("not text", "a surrogate without its pair") from error
