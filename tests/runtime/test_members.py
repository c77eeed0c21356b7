"""Tar files made to harm: refused before anything is read or allocated."""

from __future__ import annotations

import gzip
import io
import os
import resource
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from autoq.errors import InputError
from autoq.runtime.members import MembersError, open_members, write_members

BLOCKS = {"one": b"1" * 700, "two": b""}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_members(tmp_path / "x.tar", BLOCKS)
    return tmp_path / "x.tar"


def read_all(path: Path) -> dict[str, bytes]:
    with open_members(path) as reader:
        blocks = {name: reader.read(name, 1 << 20) for name in BLOCKS}
        reader.finish()
        return blocks


def remade(path: Path, change: Callable[[tarfile.TarFile, tarfile.TarInfo, bytes], None]) -> None:
    """Write the file again, member "one" by `change` and the others as `tarfile` does."""
    with tarfile.open(path) as old:
        members = [(entry, old.extractfile(entry).read()) for entry in old.getmembers()]
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as new:
        for entry, data in members:
            if entry.name == "one":
                change(new, entry, data)
            else:
                new.addfile(entry, io.BytesIO(data))


def typed(kind: bytes, link: str = "") -> Callable[[tarfile.TarFile, tarfile.TarInfo, bytes], None]:
    def change(tar: tarfile.TarFile, entry: tarfile.TarInfo, data: bytes) -> None:
        entry.type, entry.linkname = kind, link
        tar.addfile(entry, io.BytesIO(data))

    return change


def named(name: str) -> Callable[[tarfile.TarFile, tarfile.TarInfo, bytes], None]:
    def change(tar: tarfile.TarFile, entry: tarfile.TarInfo, data: bytes) -> None:
        entry.name = name
        tar.addfile(entry, io.BytesIO(data))

    return change


def claims(size: int) -> Callable[[tarfile.TarFile, tarfile.TarInfo, bytes], None]:
    def change(tar: tarfile.TarFile, entry: tarfile.TarInfo, data: bytes) -> None:
        entry.size = size
        tar.fileobj.write(entry.tobuf(tarfile.GNU_FORMAT) + data.ljust(1024, b"\0"))
        tar.offset = tar.fileobj.tell()

    return change


def extended(tar: tarfile.TarFile, entry: tarfile.TarInfo, data: bytes) -> None:
    entry.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.realsize": str(1 << 40)}
    tar.fileobj.write(entry.tobuf(tarfile.PAX_FORMAT) + data.ljust(1024, b"\0"))
    tar.offset = tar.fileobj.tell()


def twice(tar: tarfile.TarFile, entry: tarfile.TarInfo, data: bytes) -> None:
    for _ in range(2):
        tar.addfile(entry, io.BytesIO(data))


def with_another(tar: tarfile.TarFile, entry: tarfile.TarInfo, data: bytes) -> None:
    tar.addfile(entry, io.BytesIO(data))
    hidden = tarfile.TarInfo("hidden")
    hidden.size = 5
    tar.addfile(hidden, io.BytesIO(b"12345"))


HOSTILE = {
    "a symbolic link": typed(tarfile.SYMTYPE, "/etc/passwd"),
    "a hard link": typed(tarfile.LNKTYPE, "two"),
    "a device": typed(tarfile.CHRTYPE),
    "a pipe": typed(tarfile.FIFOTYPE),
    "a folder": typed(tarfile.DIRTYPE),
    "a sparse member": typed(tarfile.GNUTYPE_SPARSE),
    "an absolute path": named("/one"),
    "a path upwards": named("../one"),
    "a long name": named("one" * 100),
    "a terabyte claimed": claims(1 << 40),
    "the largest size": claims(2**63 - 1),
    "a size below zero": claims(-700),
    "less than there is": claims(1),
    "a pax header": extended,
    "the same twice": twice,
    "a member nobody named": with_another,
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_members_are_refused(path: Path, case: str) -> None:
    assert read_all(path) == BLOCKS
    remade(path, HOSTILE[case])
    with pytest.raises(MembersError):
        read_all(path)


def test_what_tar_repacks_unchanged_is_read(path: Path) -> None:
    remade(path, lambda tar, entry, data: tar.addfile(entry, io.BytesIO(data)))
    assert read_all(path) == BLOCKS


def test_a_compressed_file_is_not_unpacked(path: Path) -> None:
    path.write_bytes(gzip.compress(bytes(64 << 20)))
    with pytest.raises(MembersError):
        read_all(path)


def test_a_hole_of_a_terabyte_is_not_read(path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    os.truncate(path, 1 << 40)
    with pytest.raises(MembersError, match="instead of"):
        read_all(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (64 << 10)


def test_bytes_between_and_behind_members_are_zero(path: Path) -> None:
    whole = path.read_bytes()
    for place in (len(whole) - 1, whole.index(b"1" * 700) + 700):
        changed = bytearray(whole)
        changed[place] = 1
        path.write_bytes(changed)
        with pytest.raises(MembersError):
            read_all(path)


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        with pytest.raises(InputError, match=r"x\.tar: cannot be written"):
            write_members(tmp_path / "x.tar", {"one": bytes(1 << 20)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [(item.name, item.read_bytes()) for item in tmp_path.iterdir()] == [("x.tar", b"old")]
