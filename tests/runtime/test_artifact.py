"""Artifacts: written and read back as they were, anything else refused in one line."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest
from sound_artifact import artifact, blocks_of, rewrite_manifest

from autoq.errors import ArtifactError, InputError
from autoq.runtime.artifact import read_artifact, write_artifact
from autoq.runtime.members import write_members


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A sound artifact."""
    write_artifact(artifact(), tmp_path / "net.tar")
    return tmp_path / "net.tar"


def refuse(path: Path, *words: str) -> None:
    """Check that an artifact is refused in one line that has its path and `words`."""
    with pytest.raises(ArtifactError) as refused:
        read_artifact(path)
    line = str(refused.value)
    assert len(line.splitlines()) == 1 and len(line) < 600
    assert not [word for word in (str(path), *words) if word not in line], line


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_round_trip(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "net.tar"
    write_artifact(artifact(kind), path)
    read = read_artifact(path)
    assert read.plan == artifact(kind).plan
    assert read.kernels == artifact(kind).kernels
    np.testing.assert_array_equal(read.constants, artifact(kind).constants)
    assert [entry.name for entry in tmp_path.iterdir()] == ["net.tar"]


def test_tar_lists_and_unpacks_it(path: Path) -> None:
    with tarfile.open(path) as tar:
        names = ["digests.json", "manifest.json", "kernels/0", "kernels/1", "constants.bin"]
        assert tar.getnames() == names
        assert tar.extractfile("kernels/1").read() == b"secondsecond more"


@pytest.mark.parametrize("data", [b"", b"not a tar", b"\0" * 10240, b"\x1f\x8b" + b"\0" * 1000])
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.tar").write_bytes(data)
    refuse(tmp_path / "x.tar", "not an artifact")


def test_folders_pipes_and_absent_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refuse(tmp_path, "directory")
    refuse(tmp_path / "pipe", "no ordinary file")
    refuse(tmp_path / "none.tar", "no such file")
    with pytest.raises(ArtifactError):
        read_artifact(Path("a\0b"))


def test_truncated_artifact_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for size in (100, 600, len(whole) // 3, len(whole) - 512):
        path.write_bytes(whole[:size])
        refuse(path)


def test_each_changed_byte_is_noticed(path: Path) -> None:
    whole = path.read_bytes()
    for place in range(0, len(whole), 61):
        changed = bytearray(whole)
        changed[place] ^= 0x10
        path.write_bytes(changed)
        refuse(path)


def test_an_artifact_without_digests_asks_for_another_compile(path: Path) -> None:
    blocks = blocks_of(path)
    with tarfile.open(path, "w") as tar:
        for name, data in blocks.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    refuse(path, "earlier autoq", "compile the model again")


@pytest.mark.parametrize("version", [1, 99, "2", None, True, [], {}])
def test_another_format_asks_for_another_compile(path: Path, version: object) -> None:
    rewrite_manifest(path, path, lambda manifest: manifest.update(format=version))
    refuse(path, "format", "compile the model again")


MANIFESTS = {
    "no JSON": b"{",
    "no UTF-8": b"\xff\xfe",
    "deep": b"[" * 200_000,
    "a number of 10000 digits": b"1" * 10_000,
    "a list": b"[]",
    "no plan": b'{"format": 4, "kernels": []}',
    "kernels that are none": b'{"format": 4, "kernels": [3], "plan": {}}',
    "an empty plan": b'{"format": 4, "kernels": [], "plan": {}}',
    "more": b'{"format": 4, "kernels": [], "plan": {}, "more": 1}',
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_manifests_that_are_none(path: Path, case: str) -> None:
    write_members(path, {**blocks_of(path), "manifest.json": MANIFESTS[case]})
    refuse(path, "not an artifact")


def test_blocks_that_are_missing_or_too_many(path: Path) -> None:
    blocks = blocks_of(path)
    for name in blocks:
        write_members(path, {key: value for key, value in blocks.items() if key != name})
        refuse(path)
    write_members(path, {**blocks, "kernels/2": b"third"})
    refuse(path, "kernels/2 is unknown")
    write_members(path, dict(reversed(blocks.items())))
    refuse(path, "manifest.json is missing")
    write_members(path, {**blocks, "constants.bin": blocks["constants.bin"] * 2})
    refuse(path, "constants.bin has 1024 bytes; 512 are allowed")
    write_members(path, {**blocks, "constants.bin": b""})
    refuse(path, "0 bytes of constants")


def test_more_memory_than_there_is_is_refused_before_it_is_allocated(path: Path) -> None:
    write_artifact(artifact("cpu"), path)
    huge = 1 << 50

    def change(manifest: dict) -> None:
        plan = manifest["plan"]
        plan["arena_bytes"] = huge
        plan["inputs"][0]["slot"]["offset"] = huge - 512
        plan["calls"][0]["arguments"][0]["offset"] = huge - 512

    rewrite_manifest(path, path, change)
    refuse(path, "GB of memory")


def test_unwritable_folders_and_plans_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        write_artifact(artifact(), tmp_path / "nowhere" / "x.tar")
    sound = artifact()
    unsound = dataclasses.replace(sound, plan=dataclasses.replace(sound.plan, arena_bytes=512))
    with pytest.raises(ArtifactError):
        write_artifact(unsound, tmp_path / "x.tar")
    assert not list(tmp_path.iterdir())


def test_threads_that_write_one_path_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "net.tar"
    threads = [threading.Thread(target=write_artifact, args=(artifact(), path)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_artifact(path).plan == artifact().plan
    assert [entry.name for entry in tmp_path.iterdir()] == ["net.tar"]


def test_digests_are_those_of_sha256sum(path: Path) -> None:
    with tarfile.open(path) as tar:
        index = json.loads(tar.extractfile("digests.json").read())
    first = "b020a6f9b7a3d8e0e5a1ac62efd7c38786df7ca6a59b3ad135263693a4529115"
    assert index[1] == {"name": "kernels/0", "bytes": 15, "sha256": first}
