"""What the benchmarks keep of arrays comes back as it was, without pickles."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from array_files import read_arrays, write_arrays


def test_nested_values_come_back(tmp_path: Path) -> None:
    value = {
        "halves": [np.arange(6, dtype=np.float16).reshape(2, 3), np.zeros((0, 4), np.int8)],
        "words": (np.array([1.5, -2.0], ml_dtypes.bfloat16), np.float32(2.5)),
        "plain": (1, "text", None, {"knob": True}),
    }
    write_arrays(tmp_path / "value", value)
    found = read_arrays(tmp_path / "value")
    assert list(tmp_path.iterdir()) == [tmp_path / "value"]
    assert found["plain"] == value["plain"] and type(found["words"]) is tuple
    assert found["words"][1] == np.float32(2.5) and type(found["words"][1]) is np.float32
    pairs = [*zip(found["halves"], value["halves"], strict=True)]
    pairs.append((found["words"][0], value["words"][0]))
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_what_it_cannot_keep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_arrays(tmp_path / "value", {"object": object()})
    assert not list(tmp_path.iterdir())
