"""Odd inputs: mangled archives through `autoq run`, and odd feeds of `Session.run`.

Either the outputs are those that the arrays give, or there is one line, exit code 2 and no file.
"""

from __future__ import annotations

import contextlib
import functools
import io
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from autoq import Session
from autoq.cli import main
from autoq.errors import AutoqError
from fuzz.mutations.of_files import mangle_bytes
from fuzz.small_model import Compiled, compiled

Rng = np.random.Generator
HELD = {"image": "float32", "codes": "uint8", "nibbles": "int8"}
_DTYPES = (
    "float32", "float64", "float16", ">f4", "int8", "uint8", ">i2", "int64", "bool", "complex64",
    "M8[s]", "U3", "S5", "V4", "O", "int4", "uint4", "bfloat16", [("a", "f4"), ("b", "i1")],
)  # fmt: skip
_HEADERS = (
    b"{}", b"(" * 500, b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d,)}" % (1 << 60),
    b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"[1]" * 900, b"\x00" * 50,
    b"{'descr': '<f4', 'fortran_order': 2, 'shape': (1, 6, 8, 8)}", b"{'descr': [], 'shape': ()}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (True, 6, 8, 8)}", b"9" * 5000,
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 6, 8, -8)}", b"-" * 4000 + b"1",
)  # fmt: skip


@functools.cache
def _session() -> Session:
    return Session(compiled().path)


def case(rng: np.random.Generator, folder: Path) -> None:
    """One archive, or one set of feeds."""
    kinds = (_mangled, _odd_arrays, _odd_headers, _odd_members)
    number = int(rng.integers(len(kinds) + 2))
    if number >= len(kinds):
        _check_feeds(rng, compiled())
        return
    path = folder / "in.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path.write_bytes(kinds[number](rng, compiled()))
        _check_command(path, folder / "out.npz")


def _check_command(path: Path, out: Path) -> None:
    arguments = ["autoq", "run", str(compiled().path), "--inputs", str(path), "--outputs", str(out)]
    code, printed, line = _main(arguments)
    if code == 0:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in HELD}
        expected = _session().run(None, {**arrays, "nibbles": arrays["nibbles"].astype("int4")})
        with np.load(out) as archive:
            found = [archive[item.name] for item in _session().get_outputs()]
        for one, other in zip(expected, found, strict=True):
            assert np.array_equal(one.astype(other.dtype), other), "other outputs"
        return
    assert code == 2 and not printed, f"exit code {code}: {printed}{line}"
    words = line.startswith("autoq: ") and str(path) in line
    assert words and len(line.strip().splitlines()) == 1 and len(line) < 2000, line[:300]
    assert list(path.parent.iterdir()) == [path], f"left: {list(path.parent.iterdir())}"


def _main(arguments: list[str]) -> tuple[object, str, str]:
    """Exit code, standard output and standard error of a command in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2))
    before, sys.argv = sys.argv, arguments
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
        code: object = None
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.argv = before
    texts = [stream.buffer.getvalue().decode(errors="replace") for stream in (out, err)]
    return code, texts[0], texts[1]


def _archive(members: list[tuple[str, bytes]], method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


def _npy(array: np.ndarray, pickled: bool = False) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=pickled)
    return file.getvalue()


def _members(good: Compiled) -> list[tuple[str, bytes]]:
    held = {name: array.astype(HELD[name]) for name, array in good.feeds.items()}
    return [(f"{name}.npy", _npy(array)) for name, array in held.items()]


def _method(rng: Rng) -> int:
    return (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)[int(rng.integers(2))]


def _mangled(rng: Rng, good: Compiled) -> bytes:
    return mangle_bytes(rng, _archive(_members(good), _method(rng)))


def _odd_arrays(rng: Rng, good: Compiled) -> bytes:
    """Sound archives whose arrays are others."""
    members = dict(_members(good))
    name = tuple(HELD)[int(rng.integers(len(HELD)))]
    members[f"{name}.npy"] = _npy(_odd_array(rng, good.feeds[name]), pickled=True)
    return _archive(list(members.items()), _method(rng))


def _odd_headers(rng: Rng, good: Compiled) -> bytes:
    """Arrays whose headers or numbers are mangled; the archive around them is sound."""
    members = _members(good)
    at = int(rng.integers(len(members)))
    name, data = members[at]
    if rng.random() < 0.5:
        header = _HEADERS[int(rng.integers(len(_HEADERS)))]
        version = int(rng.integers(1, 4))
        length = len(header).to_bytes(2 if version == 1 else 4, "little")
        data = b"\x93NUMPY" + bytes([version, 0]) + length + header + data[128:]
    else:
        data = mangle_bytes(rng, data)
    members[at] = (name, data)
    return _archive(members, _method(rng))


def _odd_members(rng: Rng, good: Compiled) -> bytes:
    """Members that are twice there, missing, encrypted, called otherwise or far too long."""
    members = _members(good)
    at = int(rng.integers(len(members)))
    name, data = members[at]
    names = (
        "../x.npy",
        "/etc/passwd",
        "x" * 5000,
        "image",
        "\n",
        "\u00e9.npy",
        "image.npy.npy",
    )
    kind = int(rng.integers(6))
    if kind == 0:
        members.append((name, data))
    elif kind == 1:
        del members[at]
    elif kind == 2:
        members[at] = (names[int(rng.integers(len(names)))], data)
    elif kind == 3:
        members[at] = (name, data + bytes(int(rng.choice([1, 1 << 24]))))
    archive = bytearray(_archive(members, _method(rng)))
    if kind >= 4:  # flags, method or sizes of a directory entry and of its local header
        offset = int(rng.choice([6, 8, 10, 16, 20, 24, 28]))
        value = rng.bytes(2) if rng.random() < 0.5 else bytes([int(rng.choice([1, 9, 14, 99])), 0])
        for mark, shift in ((b"PK\x01\x02", 0), (b"PK\x03\x04", -2)):
            place = archive.find(mark) + offset + shift
            archive[place : place + 2] = value
    return bytes(archive)


def _odd_array(rng: Rng, array: np.ndarray) -> np.ndarray:
    """Another dtype, shape or order of an array, or numbers that are not in its range."""
    kind = int(rng.integers(6))
    if kind == 0:
        dtype = np.dtype(_DTYPES[int(rng.integers(len(_DTYPES)))])
        return np.zeros(array.shape, dtype)
    if kind == 1:
        return array.astype(np.float32)[..., : int(rng.integers(4))]
    if kind == 2:
        return array.astype(np.float64).reshape(-1)
    if kind == 3:
        return np.asfortranarray(array.astype(np.int8))
    if kind == 4:
        return rng.choice([np.nan, np.inf, -1e38, 300, -9, 8], array.shape).astype(np.float32)
    return np.zeros((1,) * int(rng.integers(1, 33)), array.astype(np.int8).dtype)


def _check_feeds(rng: Rng, good: Compiled) -> None:
    """Feeds of which some are odd; results equal those of plain copies where they are taken."""
    feeds: dict[Any, Any] = dict(good.feeds)
    for _ in range(int(rng.integers(1, 3))):
        name = tuple(HELD)[int(rng.integers(len(HELD)))]
        feeds[name] = _odd_feed(rng, good.feeds[name], name)
    if rng.random() < 0.1:
        feeds[(None, 3, "more", ("image",))[int(rng.integers(4))]] = good.feeds["image"]
    if rng.random() < 0.05:
        del feeds["image"]
    wanted = (None, ["gates", "gates"], [], "means", 5, [3], ["absent"], ("means",))
    names = wanted[int(rng.integers(len(wanted)))] if rng.random() < 0.3 else None
    plain = {name: _plain(array) for name, array in feeds.items()}
    try:
        found = _session().run(names, feeds)
    except AutoqError as error:
        assert len(str(error).splitlines()) == 1 and len(str(error)) < 2000, str(error)[:300]
        return
    expected = _session().run(names, plain)
    same = [np.array_equal(one, other) for one, other in zip(found, expected, strict=True)]
    assert all(same), "other outputs"


def _plain(array: Any) -> Any:
    if array is _session().buffer("nibbles"):
        return array.astype(ml_dtypes.int4)
    return np.array(array.array if isinstance(array, _Library) else array, copy=True, order="C")


class _Library:
    """An array of another library, which may fail to hand it out."""

    def __init__(self, array: np.ndarray, error: Exception | None = None) -> None:
        self.array, self._error = array, error

    def __dlpack__(self, **options: object) -> object:
        if self._error:
            raise self._error
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def _odd_feed(rng: Rng, array: np.ndarray, name: str) -> Any:
    """An array in another form, or something that is no array."""
    buffers = [_session().buffer(item) for item in (*HELD, "means", "gates", "positive")]
    errors = (OSError("no\nsuch"), KeyError(3), BufferError(), SystemError("x" * 5000))
    forms: tuple[Any, ...] = (
        _odd_array(rng, array), array[..., ::-1], np.repeat(array, 2, -1)[..., ::2],
        np.ma.array(array), array.tolist(), None, name, _Library(array), array[:0],
        np.broadcast_to(array[..., :1], array.shape), array.astype(object), array[0, 0],
        _Library(array, errors[int(rng.integers(len(errors)))]), np.float32(1),
        _Library(np.zeros(array.shape, ml_dtypes.bfloat16)), memoryview(b"abc"), type, 1 << 70,
        buffers[int(rng.integers(len(buffers)))], _Library(buffers[int(rng.integers(3))]),
    )  # fmt: skip
    form = forms[int(rng.integers(len(forms)))]
    if isinstance(form, np.ndarray) and rng.random() < 0.2:
        form = form.copy()
        form.flags.writeable = False
    return form
