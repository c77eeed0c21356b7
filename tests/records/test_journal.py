"""Appending under a lock, torn lines, and files that are no record files."""

import multiprocessing
import os

import pytest

from autoq.errors import RecordError
from autoq.records import Journal, read_records


def test_appended_records_read_back_in_order(tmp_path, record):
    path = tmp_path / "log.jsonl"
    journal = Journal(path)
    journal.append([record(seconds=1.0), record(seconds=2.0)])
    journal.append([record(failure="compile", message="spills")])
    assert [r.seconds for r in read_records(path).records] == [1.0, 2.0, None]


def test_opening_creates_nothing(tmp_path):
    Journal(tmp_path / "log.jsonl")
    assert not (tmp_path / "log.jsonl").exists()


@pytest.mark.parametrize("cut", [1, 2, 30, 200])
def test_a_torn_last_line_is_passed_over_and_repaired(tmp_path, record, cut):
    path = tmp_path / "log.jsonl"
    Journal(path).append([record(seconds=float(i + 1)) for i in range(3)])
    os.truncate(path, path.stat().st_size - cut)
    lines = read_records(path)
    whole = 3 if cut == 1 else 2  # only the newline is gone: the record itself is whole
    assert len(lines.records) == whole and lines.torn == (cut > 1) and not lines.rejected
    Journal(path).append([record(seconds=9.0)])
    repaired = read_records(path)
    assert [r.seconds for r in repaired.records] == [*[1.0, 2.0, 3.0][:whole], 9.0]
    assert not repaired.torn and not repaired.rejected


def test_a_first_line_that_is_torn_is_repaired_too(tmp_path, record):
    path = tmp_path / "log.jsonl"
    Journal(path).append([record()])
    os.truncate(path, 100)
    Journal(path).append([record(seconds=5.0)])
    assert [r.seconds for r in read_records(path).records] == [5.0]


def test_a_torn_line_longer_than_a_read_block_is_cut_whole(tmp_path, record):
    path = tmp_path / "log.jsonl"
    Journal(path).append([record(seconds=1.0)])
    with path.open("a") as file:
        file.write('{"format":1,"message":"' + "x" * 200_000)
    Journal(path).append([record(seconds=2.0)])
    lines = read_records(path)
    assert [r.seconds for r in lines.records] == [1.0, 2.0] and not lines.rejected


def test_foreign_lines_are_counted_with_their_numbers(tmp_path, record):
    path = tmp_path / "log.jsonl"
    text = f"{record().to_line()}\nhello\n{record().to_line()}\n" + '{"format":7}\n\n'
    path.write_text(text)
    lines = read_records(path)
    assert len(lines.records) == 2
    assert [bad.line for bad in lines.rejected] == [2, 4]


@pytest.mark.parametrize("text", ["hello\nworld\n", "PK\x03\x04", '{"a": 1}\n', "[1, 2]\n"])
def test_another_kind_of_file_is_refused_in_one_line_and_kept(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(RecordError, match=r"notes\.txt: not a tuning-record file") as caught:
        Journal(path)
    assert "\n" not in str(caught.value)
    assert path.read_text() == text


def test_a_binary_file_is_refused(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(bytes(range(256)) * 40)
    with pytest.raises(RecordError, match="not a tuning-record file"):
        read_records(path)


def test_a_missing_file_is_an_error_to_read(tmp_path):
    with pytest.raises(RecordError, match="cannot read"):
        read_records(tmp_path / "none.jsonl")


def test_an_output_that_cannot_be_written_is_an_error_at_once(tmp_path):
    with pytest.raises(RecordError, match="does not exist"):
        Journal(tmp_path / "missing" / "log.jsonl")
    with pytest.raises(RecordError, match="is a folder"):
        Journal(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_output_without_permission_is_an_error_at_once(tmp_path):
    path = tmp_path / "log.jsonl"
    path.touch()
    path.chmod(0o400)
    with pytest.raises(RecordError, match="cannot be written"):
        Journal(path)


def _write_many(path, record, first, start):
    journal = Journal(path)
    start.wait()
    for i in range(40):
        journal.append([record(seconds=first + i, message="x" * 5000) for _ in range(2)])


def test_two_writers_at_once_lose_nothing(tmp_path, record):
    path = tmp_path / "log.jsonl"
    context = multiprocessing.get_context("fork")
    start = context.Event()
    writers = [
        context.Process(target=_write_many, args=(path, record, first, start))
        for first in (1000.0, 2000.0)
    ]
    for writer in writers:
        writer.start()
    start.set()
    for writer in writers:
        writer.join()
    lines = read_records(path)
    assert not lines.rejected and not lines.torn
    expected = [first + i for first in (1000.0, 2000.0) for i in range(40) for _ in range(2)]
    assert sorted(r.seconds for r in lines.records) == expected
