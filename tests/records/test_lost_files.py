"""A record file that is deleted, replaced or cut while a journal has it open, and a full disk."""

import os
import resource

import pytest

from autoq.errors import RecordError
from autoq.records import Journal, read_records
from autoq.records.check import repair


@pytest.fixture
def journal(tmp_path, record):
    """A journal with two records, and what it said in `notices`."""
    notices = []
    with Journal(tmp_path / "log.jsonl", notices.append) as journal:
        journal.notices = notices
        journal.append([record(seconds=1.0), record(seconds=2.0)])
        yield journal


def _seconds(path):
    lines = read_records(path)
    assert not lines.rejected and not lines.torn
    return [record.seconds for record in lines.records]


def test_a_deleted_file_is_written_again_and_said(journal, record):
    before = journal.path.read_bytes()
    journal.path.unlink()
    journal.append([record(seconds=3.0)])
    assert _seconds(journal.path) == [1.0, 2.0, 3.0]
    assert journal.path.read_bytes().startswith(before)
    assert journal.notices == [f"{journal.path}: was deleted; its 2 lines are written again"]
    journal.append([record(seconds=4.0)])
    assert len(journal.notices) == 1


def test_what_an_opened_file_held_survives_its_deletion(tmp_path, record):
    Journal(tmp_path / "log.jsonl").append([record(seconds=1.0)])
    notices = []
    with Journal(tmp_path / "log.jsonl", notices.append) as journal:
        journal.path.unlink()
        journal.append([record(seconds=2.0)])
        assert _seconds(journal.path) == [1.0, 2.0] and len(notices) == 1


def test_of_two_tuners_one_writes_a_deleted_file_again(journal, record):
    with Journal(journal.path, journal.notices.append) as other:
        journal.path.unlink()
        journal.append([record(seconds=3.0)])
        other.append([record(seconds=4.0)])
        journal.append([record(seconds=5.0)])
    assert _seconds(journal.path) == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_deleted_folder_is_an_error(journal, record):
    journal.path.unlink()
    journal.path.parent.rmdir()
    with pytest.raises(RecordError, match=r"log\.jsonl: cannot append records: No such file"):
        journal.append([record()])


def test_a_repaired_file_is_gone_on_with(journal, record):
    with journal.path.open("ab") as file:
        file.write(b"rubbish\n")
    repair(journal.path)
    journal.append([record(seconds=3.0)])
    assert _seconds(journal.path) == [1.0, 2.0, 3.0]
    assert "was replaced by another file" in journal.notices[0]


def test_a_file_of_another_kind_in_its_place_is_left_alone(journal, record):
    journal.path.unlink()
    journal.path.write_text("my notes\n")
    with pytest.raises(RecordError, match="not a tuning-record file"):
        journal.append([record(seconds=3.0)])
    assert journal.path.read_text() == "my notes\n"


def test_a_file_that_was_cut_is_said(journal, record):
    os.truncate(journal.path, 0)
    journal.append([record(seconds=3.0)])
    assert _seconds(journal.path) == [3.0]
    assert journal.notices == [f"{journal.path}: was cut short; records of before are missing"]


def test_a_full_disk_keeps_the_lines_that_are_whole(journal, record):
    size = journal.path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + size // 2 + 20, hard))
    try:
        with pytest.raises(RecordError, match=r"log\.jsonl: cannot append records: File too large"):
            journal.append([record(seconds=float(i)) for i in range(3, 9)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert _seconds(journal.path) == [1.0, 2.0, 3.0]


def test_a_writer_that_waits_for_a_repair_writes_to_the_new_file(journal, record, monkeypatch):
    """The file is replaced between opening it and getting its lock."""
    import fcntl

    lock = fcntl.flock

    def replaced_meanwhile(file, kind):
        monkeypatch.setattr(fcntl, "flock", lock)
        copy = journal.path.with_name("copy")
        copy.write_bytes(journal.path.read_bytes())
        copy.replace(journal.path)
        lock(file, kind)

    monkeypatch.setattr(fcntl, "flock", replaced_meanwhile)
    journal.append([record(seconds=3.0)])
    assert _seconds(journal.path) == [1.0, 2.0, 3.0]


def test_a_last_line_that_is_damaged_but_whole_is_not_cut_off(tmp_path, record):
    path = tmp_path / "log.jsonl"
    damaged = record().to_line().replace("3.8e-06", "3.8e-09")
    path.write_text(f"{record(seconds=1.0).to_line()}\n{damaged}")
    Journal(path).append([record(seconds=2.0)])
    lines = read_records(path)
    assert [r.seconds for r in lines.records] == [1.0, 2.0]
    assert [(bad.line, bad.kind) for bad in lines.rejected] == [(2, "checksum differs")]
