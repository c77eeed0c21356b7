"""Files of sparse matrices: read whole, and answered in one line where they are torn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autoq.errors import InputError
from autoq.products.sparse_file import read_smtx

TEXT = "3, 5, 4\n0 2 2 4\n1 4 0 3\n"


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "matrix.smtx"
    file.write_text(TEXT)
    expected = [[0, 1, 0, 0, 1], [0, 0, 0, 0, 0], [1, 0, 0, 1, 0]]
    np.testing.assert_array_equal(read_smtx(file).to_dense(), expected)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1 has 0 numbers"),
        (TEXT[:12], "line 2 has 2 pointers; line 1 says 4"),
        (TEXT[:18], "line 3 has 1 columns; line 1 says 4"),
        (TEXT.replace("1 4", "1 x"), "line 3 holds something that is no integer"),
        (TEXT.replace("0 3", "0 5"), "index 3 is column 5; the matrix has 5"),
        (TEXT.replace("0 2 2", "0 3 2"), "expected to rise"),
        (TEXT.replace("3, 5", "-3, 5"), "-3 rows"),
        ("\x00\xff", "no text"),
    ],
)
def test_a_torn_file_is_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "torn.smtx"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=f"torn.smtx: .*{complaint}"):
        read_smtx(file)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_smtx(tmp_path / "none.smtx")
