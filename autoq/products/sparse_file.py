"""The text files of the Deep Learning Matrix Collection, `.smtx`: where a sparse matrix has values.

The first line holds rows, columns and entries, parted by commas; the second the pointers of the
rows, the third the column of each entry, both parted by spaces.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from autoq.errors import InputError
from autoq.paths import as_path, content_of
from autoq.templates.sparse.vector_matrix import VectorMatrix, check_rows

_MOST = 1 << 31


def read_smtx(path: str | os.PathLike[str]) -> VectorMatrix:
    """The pattern in vectors of one row, with int8 ones as values.

    Raises InputError of one line for a file that cannot be read, is torn or is no such file.
    """
    file = as_path(path)
    try:
        text = content_of(file).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InputError(f"{file}: cannot be read: {reason}") from error
    lines = text.splitlines()
    heading = _integers(file, "line 1", lines[0] if lines else "", ",")
    if len(heading) != 3:
        raise InputError(f"{file}: line 1 has {len(heading)} numbers; rows, columns, entries")
    rows, columns, count = (int(number) for number in heading)
    if not (0 < rows < _MOST and 0 < columns < _MOST and 0 <= count < _MOST):
        raise InputError(f"{file}: {rows} rows, {columns} columns, {count} entries in line 1")
    parts = []
    for name, number, expected in (("pointers", 2, rows + 1), ("columns", 3, count)):
        line = lines[number - 1] if len(lines) >= number else ""
        found = _integers(file, f"line {number}", line)
        if len(found) != expected:
            raise InputError(
                f"{file}: line {number} has {len(found)} {name}; line 1 says {expected}"
            )
        parts.append(found)
    pointers, indices = parts
    try:
        check_rows(pointers, indices, rows, columns)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    ones = np.ones((count, 1), np.int8)
    return VectorMatrix(rows, columns, 1, pointers.astype(np.int32), indices.astype(np.int32), ones)


def _integers(file: Path, place: str, line: str, separator: str = " ") -> np.ndarray:
    """The integers of a line, int64."""
    try:
        return np.array([int(word) for word in line.replace(separator, " ").split()], np.int64)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{file}: {place} holds something that is no integer") from error
