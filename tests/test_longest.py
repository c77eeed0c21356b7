"""The order of the suite's files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import longest
import pytest
from longest import FOLDER, LONGEST, file_seconds, longest_first, unnamed


def test_what_is_named_is_there_once():
    assert len(set(LONGEST)) == len(LONGEST)
    assert [name for name in LONGEST if not (FOLDER / name).is_file()] == []


def test_the_longest_go_first_and_the_others_keep_their_order():
    names = ["b/test_b.py", LONGEST[1], f"else/{Path(LONGEST[0]).name}", LONGEST[0], "test_a.py"]
    items = [SimpleNamespace(path=FOLDER / name) for name in names]
    longest_first(items)
    found = [item.path.relative_to(FOLDER).as_posix() for item in items]
    assert found == [LONGEST[0], LONGEST[1], names[0], names[2], names[4]]


def test_seconds_are_those_of_all_phases_of_all_tests_of_a_file():
    def report(name: str, duration: float) -> pytest.TestReport:
        place = (name, 1, name)
        return pytest.TestReport(name, place, {}, "passed", None, "call", duration=duration)

    reports = [report("tests/a/test_a.py::one", 1), report("tests/a/test_a.py::two[x::y]", 2)]
    assert file_seconds([*reports, report("tests/test_b.py::one", 4), "a warning"]) == {
        "a/test_a.py": 3, "test_b.py": 4,
    }  # fmt: skip


def test_a_file_that_takes_longer_than_most_named_ones_is_said(monkeypatch):
    monkeypatch.setattr(longest, "LONGEST", ("a", "b", "c"))
    seconds = {"a": 9.0, "b": 5.0, "c": 4.0}
    assert unnamed({**seconds, "d": 4.9, "e": 5.1}) == ["e"]
    assert unnamed({"a": 9.0, "b": 5.0, "e": 99.0}) == []
