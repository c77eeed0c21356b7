"""Mangled artifacts: one line, or the same outputs, and nothing else.

Where digests were made again over a mangled plan the outputs may be others, since an artifact is a
program; but no such plan kills the process, and nothing escapes. Machine code stays as it is then.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sound_artifact import blocks_of

from autoq import Session
from autoq.errors import AutoqError
from autoq.runtime.artifact import read_artifact
from autoq.runtime.members import write_members
from fuzz.mutations.of_files import mangle_bytes, mangle_json
from fuzz.small_model import Compiled, compiled, for_cuda

Rng = np.random.Generator
_TYPES = (
    tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE,
    tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, tarfile.XHDTYPE,
    tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.GNUTYPE_SPARSE,
)  # fmt: skip
_NAMES = (
    "/etc/passwd", "../../x", "manifest.json", "constants.bin", "kernels/0", "kernels/99",
    "digests.json", "", "x" * 300, "kernels/0/../1", "\u00e9",
)  # fmt: skip
_SIZES = (0, 1, 511, 513, 1 << 20, 1 << 33, 1 << 40, 2**63 - 1, -1)


def case(rng: np.random.Generator, folder: Path) -> None:
    """One artifact, loaded and run when it loads."""
    good = compiled()
    path = folder / "x.tar"
    kinds = (_bytes, _bytes, _tar, _tar, _undigested, _index, _plan, _plan, _plan, _blocks, _cuda)
    kind = kinds[int(rng.integers(len(kinds)))]
    kind(rng, good, path)
    if kind is _cuda:
        _check_read(path)
    else:
        _check_run(path, good, same=kind is not _plan)


def _check_run(path: Path, good: Compiled, same: bool) -> None:
    try:
        session = Session(path)
        feeds = {item.name: _feed(good, item.shape, item.dtype) for item in session.get_inputs()}
        results = session.run(None, good.feeds if same else feeds)
    except AutoqError as error:
        _check_line(str(error), path)
        return
    assert not same or all(map(np.array_equal, results, good.results)), "other outputs"


def _feed(good: Compiled, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """What a plan with other names takes: an array of the model if one fits, else zeros."""
    fitting = [one for one in good.feeds.values() if (one.shape, one.dtype) == (shape, dtype)]
    return fitting[0] if fitting else np.zeros(shape, dtype)


def _check_read(path: Path) -> None:
    try:
        read_artifact(path)
    except AutoqError as error:
        _check_line(str(error), path)


def _check_line(line: str, path: Path) -> None:
    assert str(path) in line, f"a line that does not name the file: {line[:200]}"
    assert len(line.splitlines()) == 1 and len(line) < 2000, f"not one line: {line[:300]!r}"


def _bytes(rng: Rng, good: Compiled, path: Path) -> None:
    data = mangle_bytes(rng, good.data)
    path.write_bytes(
        rng.choice([gzip.compress, bz2.compress])(data) if rng.random() < 0.03 else data
    )


def _tar(rng: Rng, good: Compiled, path: Path) -> None:
    """Members of other types, names and sizes, in other orders, twice or missing."""
    blocks = list(blocks_of_data(good.data).items())
    if rng.random() < 0.3:
        rng.shuffle(blocks)
    styles = (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT)
    file = io.BytesIO()
    target = int(rng.integers(len(blocks)))
    with tarfile.open(fileobj=file, mode="w", format=styles[int(rng.integers(3))]) as tar:
        for number, (name, data) in enumerate(blocks):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            if number == target:
                data = _odd_member(rng, tar, entry, data)
            if data is not None:
                tar.addfile(entry, io.BytesIO(data.ljust(max(entry.size, 0), b"\0")))
    path.write_bytes(file.getvalue())


def _odd_member(
    rng: Rng, tar: tarfile.TarFile, entry: tarfile.TarInfo, data: bytes
) -> bytes | None:
    """Change a member before it is added; None where it is added already, or left out."""
    kind = int(rng.integers(6))
    if kind == 0:
        entry.type = _TYPES[int(rng.integers(len(_TYPES)))]
        entry.linkname = str(rng.choice(["constants.bin", "/etc/passwd", "../x"]))
    elif kind == 1:
        entry.name = _NAMES[int(rng.integers(len(_NAMES)))]
        if tar.format == tarfile.USTAR_FORMAT:
            entry.name = entry.name[:99]
    elif kind == 2:
        tar.addfile(entry, io.BytesIO(data))
    elif kind == 3:
        entry.size = _SIZES[int(rng.integers(len(_SIZES)))]
        header = entry.tobuf(tarfile.GNU_FORMAT)
        tar.fileobj.write(header + data + bytes(-len(data) % 512))
        tar.offset = tar.fileobj.tell()
        return None
    elif kind == 4:
        entry.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.realsize": str(1 << 40),
                             "path": "../x", "size": str(1 << 50)}  # fmt: skip
    else:
        entry.mtime, entry.mode, entry.uid = 5, 0o777, 7
    return data


def _undigested(rng: Rng, good: Compiled, path: Path) -> None:
    """One block changed, digests left as they were."""
    old = blocks_of_data(good.data)
    name = list(old)[int(rng.integers(len(old)))]
    block = old[name]
    while block == old[name]:
        block = mangle_bytes(rng, old[name])[: len(old[name])].ljust(len(old[name]), b"\0")
    path.write_bytes(good.data.replace(old[name], block, 1))


def _index(rng: Rng, good: Compiled, path: Path) -> None:
    """Digests that are others, padded to the size that they had."""
    old = blocks_of_data(good.data)["digests.json"]
    new = json.dumps(mangle_json(rng, json.loads(old))).encode()[: len(old)].ljust(len(old))
    path.write_bytes(good.data.replace(old, new, 1))


def _plan(rng: Rng, good: Compiled, path: Path) -> None:
    _remanifest(rng, blocks_of(good.path), path)


def _cuda(rng: Rng, good: Compiled, path: Path) -> None:
    path.write_bytes(for_cuda())
    _remanifest(rng, blocks_of(path), path)


def _remanifest(rng: Rng, blocks: dict[str, bytes], path: Path) -> None:
    """A mangled manifest, with digests that are right."""
    manifest = mangle_json(rng, json.loads(blocks["manifest.json"]))
    write_members(path, {**blocks, "manifest.json": json.dumps(manifest).encode()})


def _blocks(rng: Rng, good: Compiled, path: Path) -> None:
    """Constants of another size, manifests that are no JSON: digests are right."""
    blocks = blocks_of(good.path)
    texts = (b"[" * 100_000, b"1" * 9999, b"", b"\xff", b"{}", b'{"format": 4}', b"null", b'"x"')
    choices: tuple[Callable[[], tuple[str, bytes]], ...] = (
        lambda: ("manifest.json", texts[int(rng.integers(len(texts)))]),
        lambda: ("constants.bin", blocks["constants.bin"][: int(rng.integers(2000))]),
        lambda: ("constants.bin", blocks["constants.bin"] + bytes(256)),
        lambda: ("kernels/1000", b""),
        lambda: ("kernels/0", b"not an object" * int(rng.integers(100))),
    )
    name, data = choices[int(rng.integers(len(choices)))]()
    write_members(path, {**blocks, name: data})


def blocks_of_data(data: bytes) -> dict[str, bytes]:
    """All members of a sound artifact, the digests among them."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar}
