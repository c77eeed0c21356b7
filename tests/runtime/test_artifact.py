"""Artifacts: written and read back as they were, anything else refused in one line."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from autoq.errors import ArtifactError, InputError
from autoq.runtime.artifact import Artifact, read_artifact, write_artifact
from autoq.runtime.kernel import (
    Buffer,
    CpuKernel,
    CudaKernel,
    Im2colMap,
    Launch,
    Scalar,
    TiledMap,
)
from autoq.runtime.plan import Plan, Port, Slot, Step

SLOT = Slot("arena", 256, (1, 2, 3), "int8")
LAUNCH = Launch(
    "main_kernel", (4, 5, 6), (128, 1, 1), (2, 1, 1), 4096,
    (
        Buffer(1),
        Scalar(7, "int32"),
        TiledMap(0, "int8", (16, 8), (16,), (16, 8), (1, 1), 0, 3, 2, 0),
        Im2colMap(0, "int8", (16, 8, 8, 1), (16, 128, 1024), (-1, -1), (-1, -1), 16, 64,
                  (1, 1, 1, 1), 2),
    ),
    programmatic=True,
)  # fmt: skip


def artifact() -> Artifact:
    step = Step(0, (SLOT, Slot("constant", 0, (4,), "float32")), "conv1", "N1 3x3", "t", "default",
                10, 20, 1e-6)  # fmt: skip
    plan = Plan("net", "cuda", "sm_90a", (), (Port("x", SLOT),), (Port("y", SLOT),), 512, 256,
                (step,))  # fmt: skip
    kernels = (
        CudaKernel(b"cubin", (LAUNCH,), 2, (64,), 100, 8),
        CpuKernel(b"object", "main", 3),
    )
    return Artifact(plan, kernels, np.arange(256, dtype=np.uint8))


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "net.tar"
    write_artifact(artifact(), path)
    read = read_artifact(path)
    assert read.plan == artifact().plan
    assert read.kernels == artifact().kernels
    np.testing.assert_array_equal(read.constants, artifact().constants)
    assert [entry.name for entry in tmp_path.iterdir()] == ["net.tar"]


@pytest.mark.parametrize("data", [b"", b"not a tar", b"\0" * 10240])
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match=r"x\.tar: not an artifact"):
        read_artifact(path)


def test_truncated_artifact_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    write_artifact(artifact(), path)
    whole = path.read_bytes()
    for size in (100, 600, len(whole) // 3):
        path.write_bytes(whole[:size])
        with pytest.raises(ArtifactError, match=r"x\.tar"):
            read_artifact(path)


def test_later_format_asks_for_another_compile(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    data = json.dumps({"format": 99}).encode()
    with tarfile.open(path, "w") as tar:
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    with pytest.raises(ArtifactError, match=r"format 99.*compile the model again"):
        read_artifact(path)


def test_missing_file_and_unwritable_folder(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no such file"):
        read_artifact(tmp_path / "none.tar")
    with pytest.raises(InputError, match="cannot be written"):
        write_artifact(artifact(), tmp_path / "nowhere" / "x.tar")
