"""What `logs check` finds wrong, and what `--repair` leaves."""

import os

import pytest

from autoq.errors import RecordError
from autoq.records import Journal, read_records
from autoq.records.check import check, repair

MACHINE = (
    "OSError: [Errno 28] No space left on device: '/cache/x'",
    "OSError: [Errno 30] Read-only file system: '/cache'",
    "the compiler died of SIGKILL",
)
CANDIDATE = ("ptxas error: too many resources", "the worker died of SIGSEGV", "wrong at [0, 1]")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.jsonl"


def _failing(record, messages, failure="compile"):
    return [
        record(failure=failure, message=message, config={"tile": i})
        for i, message in enumerate(messages)
    ]


@pytest.mark.parametrize("failure", ["compile", "runtime"])
def test_failures_of_the_machine_are_removed_and_those_of_candidates_stay(path, record, failure):
    theirs = _failing(record, CANDIDATE, failure)
    Journal(path).append([record(), *_failing(record, MACHINE, failure), *theirs])
    found = check(path)
    assert not found.sound
    assert [problem.split(": ")[0] for problem in found.problems] == [
        f"{path}:{line}" for line in (2, 3, 4)
    ]
    assert repair(path).removed == found.problems
    assert read_records(path).records == (record(), *theirs)
    assert check(path).sound


def test_wrong_results_are_never_the_machines(path, record):
    Journal(path).append(_failing(record, MACHINE, "correctness"))
    assert check(path).sound


def test_repair_keeps_the_bytes_of_good_lines_its_mode_and_a_link(path, record):
    older = b'{"format": 1, ' + record().to_line().encode()[12:].split(b',"crc32"')[0] + b"}\r\n"
    newer = record(seconds=2.0).to_line().encode()
    path.write_bytes(older + b"\xff\n" + newer)
    path.chmod(0o600)
    link = path.with_name("link.jsonl")
    link.symlink_to(path.name)
    assert repair(link).records == 2
    assert path.read_bytes() == older + newer + b"\n" and link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600


def test_repair_of_a_sound_file_writes_nothing(path, record):
    Journal(path).append([record()])
    written = path.read_bytes()
    before = path.stat()
    assert repair(path).backup is None
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert path.read_bytes() == written and os.listdir(path.parent) == ["log.jsonl"]


def test_repair_where_there_are_no_hard_links(path, record, monkeypatch):
    def refuse(*names):
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    damaged = record().to_line().encode() + b"\nrubbish\n"
    path.write_bytes(damaged)
    backup = repair(path).backup
    assert backup == f"{path}.bak"
    assert path.with_name("log.jsonl.bak").read_bytes() == damaged


def test_a_line_of_a_hundred_megabytes_is_passed_over_without_being_held(path, record):
    with path.open("wb") as file:
        file.write(record(seconds=1.0).to_line().encode() + b'\n{"format":1,"message":"')
        file.truncate(100 << 20)
        file.seek(100 << 20)
        file.write(b'"}\n' + record(seconds=2.0).to_line().encode() + b"\n")
    lines = read_records(path)
    assert [r.seconds for r in lines.records] == [1.0, 2.0]
    assert [(bad.line, bad.kind) for bad in lines.rejected] == [(2, "too long")]


def test_a_device_is_no_record_file():
    with pytest.raises(RecordError, match="/dev/zero: is no ordinary file"):
        read_records("/dev/zero")
