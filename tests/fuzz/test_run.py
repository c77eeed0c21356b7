"""The fuzzer notices all that a case can do to it, and draws the same cases again."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import misbehaving
from fuzz.child import rng_of, run_case
from fuzz.findings import Finding
from fuzz.run import fuzz, once

CASES, SEED = 12, 12
SUBJECT = "fuzz.misbehaving"
EXPECTED = {
    "_behave": None,
    "_wrong": ("wrong", "output differs by 3 steps"),
    "_escape": ("escaped", "KeyError: 'integers'"),
    "_exit": ("escaped", "SystemExit: 0"),
    "_die": ("died", "signal SIGSEGV"),
    "_hang": ("hung", "longer than 5 s"),
    "_hoard": ("escaped", "MemoryError"),
}


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def drawn(case: int) -> str:
    """What `misbehaving` does in a case."""
    return misbehaving.KINDS[rng_of(SEED, case).integers(len(misbehaving.KINDS))].__name__


def test_every_kind_of_misbehaviour_is_found(environment: Path, monkeypatch) -> None:
    shown: list[Finding] = []
    add = fuzz.__globals__["Tally"].add
    monkeypatch.setattr("fuzz.run.Tally.add", lambda self, f: (shown.append(f), add(self, f)))
    assert {drawn(case) for case in range(CASES)} == set(EXPECTED)
    tally = fuzz(SUBJECT, SEED, CASES, 600, 2, environment)
    assert tally.cases == CASES
    found = {finding.case: finding for finding in shown if finding}
    for case in range(CASES):
        expected = EXPECTED[drawn(case)]
        assert (case in found) == (expected is not None)
        if expected:
            assert found[case].kind == expected[0] and expected[1] in found[case].message
    assert not list(environment.glob("case-*/left behind")), "a case left its folder"


def test_a_case_is_found_again_by_its_seed(environment: Path, capfd, monkeypatch) -> None:
    number = next(case for case in range(CASES) if drawn(case) == "_wrong")
    monkeypatch.setattr("fuzz.run.limit_memory", lambda module: None)  # it is this process
    assert once(SUBJECT, SEED, number) == 1
    assert "output differs by 3 steps" in capfd.readouterr().err
    finding = run_case(misbehaving, SEED, number)
    assert finding is not None and finding.kind == "wrong"


def test_findings_of_one_defect_differ_in_numbers_only() -> None:
    first = Finding(1, "escaped", "KeyError: 'a/integers'", "autoq/graph/ir.py:7")
    second = Finding(9, "escaped", "KeyError: 'b/integers'", "autoq/graph/ir.py:7")
    other = Finding(9, "escaped", "KeyError: 'b/integers'", "autoq/graph/ir.py:8")
    assert first.defect == second.defect != other.defect


def test_each_process_runs_a_case_however_little_time_there_is(environment: Path) -> None:
    assert fuzz("fuzz.harmless", SEED, CASES, 0.0, 2, environment).cases == 2


def test_a_subject_that_cannot_start_is_a_finding(environment: Path) -> None:
    tally = fuzz("fuzz.absent", SEED, CASES, 600, 1, environment)
    assert tally.findings.total() == 1
