"""Errors are one line, whatever the names in them hold."""

from __future__ import annotations

import pickle

import pytest

from autoq.errors import AutoqError, CompilerDied, ModelError


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ("two\nlines", "two\\nlines"), ("\x1b[2J", "\\x1b[2J"), ("\ud800", "\\ud800"),
        ("a\u2028b", "a\\u2028b"), ("caf\u00e9 \u4e2d", "caf\u00e9 \u4e2d"), ("nul\0", "nul\\x00"),
    ],
)  # fmt: skip
def test_what_no_terminal_should_get_is_escaped(found, shown):
    line = str(ModelError(f"model.onnx: node {found}"))
    assert line == f"model.onnx: node {shown}" and len(line.splitlines()) == 1
    line.encode()


def test_errors_travel_between_processes():
    error = pickle.loads(pickle.dumps(ModelError("no\nmodel")))
    assert isinstance(error, ModelError) and str(error) == "no\\nmodel"
    assert CompilerDied("gone\n", outside=True).outside and not str(AutoqError())
