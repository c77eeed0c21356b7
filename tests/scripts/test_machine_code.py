"""The hash of machine code, and what is hashed."""

from __future__ import annotations

import struct

import pytest
from machine_code import code_hash, workloads

from autoq.records.database import Database


def elf(sections: dict[str, bytes]) -> bytes:
    """A 64-bit ELF file of these sections, and of nothing else that matters."""
    names = b"\0"
    headers, contents = [(0, 0, 0)], b""
    everything = {**sections, ".shstrtab": b""}
    for name in everything:
        names += name.encode() + b"\0"
    everything[".shstrtab"] = names
    for name, content in everything.items():
        headers.append((names.index(name.encode()), 64 + len(contents), len(content)))
        contents += content
    start = bytearray(64)
    start[:5] = b"\x7fELF\x02"
    struct.pack_into("<Q", start, 0x28, 64 + len(contents))
    struct.pack_into("<HHH", start, 0x3A, 64, len(headers), len(headers) - 1)
    table = b"".join(
        struct.pack("<IIQQQQ", n, 1, 0, 0, at, size) + bytes(24) for n, at, size in headers
    )
    return bytes(start) + contents + table


def test_names_and_other_sections_do_not_count() -> None:
    one = elf({".text.main": b"\1\2\3", ".text.second": b"\4", ".strtab": b"main"})
    renamed = elf({".text.other": b"\1\2\3", ".text.a_second": b"\4", ".strtab": b"other"})
    assert code_hash(one) == code_hash(renamed)
    for changed in (
        {".text.main": b"\1\2\4", ".text.second": b"\4"},
        {".text.main": b"\1\2", ".text.second": b"\3\4"},
        {".text.main": b"\1\2\3"},
    ):
        assert code_hash(elf(changed)) != code_hash(one)


def test_what_is_no_elf_file_is_refused() -> None:
    with pytest.raises(ValueError, match="not a 64-bit ELF file"):
        code_hash(b"\x7fELF\x01" + bytes(100))


def test_every_shipped_workload_is_there_once() -> None:
    database = Database.load([], shipped=True)
    found = workloads(database, "sm_90a")
    assert len(found) == len(set(found)) > 100
    assert not workloads(database, "sm_75")
