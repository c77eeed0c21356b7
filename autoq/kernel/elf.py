"""Sections of compiled files: cubins and objects are both ELF."""

from __future__ import annotations

import struct
from collections.abc import Iterator


def sections(elf: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and contents of the sections of a 64-bit ELF file; raises ValueError for others."""
    if elf[:5] != b"\x7fELF\x02":
        raise ValueError("not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + size * i) for i in range(count)]
    names = elf[headers[names_at][4] :]
    for name, _, _, _, offset, length in headers:
        yield names[name : names.index(b"\0", name)], elf[offset : offset + length]


def text_sections(elf: bytes) -> list[bytes]:
    """The machine code of an ELF file: the contents of its .text sections."""
    return [content for name, content in sections(elf) if name.startswith(b".text")]
