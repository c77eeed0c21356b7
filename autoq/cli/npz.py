"""Arrays in .npz archives; nothing is unpacked or allocated beyond what the inputs take."""

from __future__ import annotations

import io
import stat
import warnings
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import ml_dtypes
import numpy as np

from autoq.errors import InputError
from autoq.replace_file import replace_file
from autoq.session import Argument
from autoq.templates.arrays.storage import value_dtype

_PREFIX_BYTES = 12 + 10_000
"""The longest magic, version and header that numpy reads without being asked for more."""

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_ENCRYPTED = 1
# How much of an archive's names a line has room for.
_NAMES = 200


def read_arrays(path: Path, inputs: Sequence[Argument]) -> dict[str, np.ndarray]:
    """The array of every input, of its shape and dtype; 4-bit numbers lie one a byte in archives.

    Raises InputError for anything else than one plain array for each input.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{path}: is no ordinary file; name an .npz archive")
        with zipfile.ZipFile(path) as archive:
            members = _members(path, archive, [item.name for item in inputs])
            return {item.name: _array(path, archive, members[item.name], item) for item in inputs}
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except Exception as error:  # zipfile has no root of what it raises for a broken archive
        example = f"numpy.savez(file, **{{{inputs[0].name if inputs else 'x'!r}: array}})"
        raise InputError(f"{path}: not an .npz archive; write one with {example}") from error


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an archive, 4-bit numbers one a byte; a reader sees all of it or none."""
    # numpy.savez cannot write arrays named "file", nor to a path without its suffix.
    with replace_file(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            held = array.astype(value_dtype(str(array.dtype)))
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, held, allow_pickle=False)


def _members(
    path: Path, archive: zipfile.ZipFile, known: Sequence[str]
) -> dict[str, zipfile.ZipInfo]:
    """The member of each input; there must be no others."""
    members = {item.filename.removesuffix(".npy"): item for item in archive.infolist()}
    counts = Counter(item.filename.removesuffix(".npy") for item in archive.infolist())
    for name, count in counts.items():
        if count > 1:
            raise InputError(f"{path}: {count} arrays are called {name!r:.60}; give each input one")
    for name in known:
        if name not in members:
            raise InputError(
                f"{path}: no array {name!r}; it holds {sorted(members)!s:.{_NAMES}}, "
                f"inputs are {known}"
            )
    unknown = sorted(set(members) - set(known))
    if unknown:
        raise InputError(f"{path}: array {unknown[0]!r:.60} is no input; inputs are {known}")
    return members


def _array(
    path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, item: Argument
) -> np.ndarray:
    again = "write the archive again with numpy.savez"
    if member.flag_bits & _ENCRYPTED:
        raise InputError(f"{path}: {member.filename} is encrypted; {again}")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(
            f"{path}: {member.filename} is packed by method {member.compress_type}; {again}"
        )
    try:
        with archive.open(member) as file:
            array = _read(path, file, item)
    except InputError:
        raise
    except Exception as error:  # nor has numpy for a header that is none
        raise InputError(
            f"{path}: {member.filename} is damaged; write the archive again"
        ) from error
    return _four_bits(path, array, item) if item.dtype != str(array.dtype) else array


def _read(path: Path, file: IO[bytes], item: Argument) -> np.ndarray:
    """One array, whose header is looked at before any of its numbers is read."""
    start = file.read(_PREFIX_BYTES)
    prefix = io.BytesIO(start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape, fortran, dtype = _HEADERS[np.lib.format.read_magic(prefix)](prefix)
    if item.dtype == "bfloat16" and dtype == np.dtype("V2"):
        dtype = np.dtype(ml_dtypes.bfloat16)  # numpy.savez does not write its name
    if (shape, dtype) != (item.shape, np.dtype(value_dtype(item.dtype))):
        raise InputError(
            f"{path}: array {item.name!r}: expected {_expected(item)}, found {dtype!s:.60} "
            f"{list(shape)!s:.60}"
        )
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    data = start[prefix.tell() :]
    data += file.read(max(0, size + 1 - len(data)))
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes or more instead of {size}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _four_bits(path: Path, array: np.ndarray, item: Argument) -> np.ndarray:
    limits = ml_dtypes.iinfo(item.dtype)
    least, most = array.min(), array.max()
    if not limits.min <= least <= most <= limits.max:
        raise InputError(
            f"{path}: array {item.name!r}: expected {_expected(item)}, found numbers from {least} "
            f"to {most}"
        )
    return array.astype(item.dtype)


def _expected(item: Argument) -> str:
    """What an array must be, as archives hold it."""
    held = value_dtype(item.dtype)
    text = f"{item.dtype} {list(item.shape)}"
    if held == item.dtype:
        return text
    limits = ml_dtypes.iinfo(item.dtype)
    return f"{text}, given as {held} numbers from {limits.min} to {limits.max}"
